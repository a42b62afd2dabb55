"""Compare the results of all ranks of one job."""
