"""The gate, which decides whether a job got slower: it compares digests of runs, which the analysis makes."""
