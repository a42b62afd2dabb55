"""The hooks of PyTorch 2, one file for each concern."""
