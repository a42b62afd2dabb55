"""Everything that runs inside the training process; the rest of the product never imports it."""
