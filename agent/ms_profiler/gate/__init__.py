"""The gate: is a job slower than it was? It compares digests of runs, which the analysis makes."""
