"""Compare runs: reduce each run to a digest (a small record of its figures), and explain differences of two runs."""
