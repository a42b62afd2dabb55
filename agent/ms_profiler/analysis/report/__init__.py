"""What a person reads, built from `summary.json` alone."""
