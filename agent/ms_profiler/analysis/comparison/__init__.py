"""Compare runs: condense each run to a digest, and explain the differences between two runs."""
