"""The hooks of PyTorch 2, one file per concern."""
