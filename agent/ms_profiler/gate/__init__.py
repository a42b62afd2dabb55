"""The gate, which decides whether a job got slower. It compares digests: the key figures that the analysis computes."""
