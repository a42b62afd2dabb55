"""Reports for people, made from `summary.json` alone."""
