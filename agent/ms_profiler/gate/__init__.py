"""The gate, which decides whether a job got slower. It compares digests of runs, which the analysis makes."""
