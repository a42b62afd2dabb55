"""The gate: is a job slower than it was? Decides over digests of runs; what a digest is, the analysis knows."""
