"""What runs an analysis: which inputs, in which sections, and whose files are whose."""
