"""What two runs have to tell of each other: the digest of a run, and what differs between two of them."""
