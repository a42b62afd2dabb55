"""PyTorch 2: what of it is hooked, one file per concern."""
