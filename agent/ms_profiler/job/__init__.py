"""The code that runs inside the training process; the analysis never imports it."""
