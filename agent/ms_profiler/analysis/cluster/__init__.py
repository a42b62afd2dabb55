"""What the results of all ranks of a job say together."""
