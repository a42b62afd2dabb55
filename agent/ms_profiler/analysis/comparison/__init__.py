"""Compare runs: the digest of a run, and the differences of two runs."""
