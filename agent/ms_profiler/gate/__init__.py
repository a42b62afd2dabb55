"""The gate, which decides whether a job got slower. It compares digests of runs; the analysis makes the digests."""
