"""Compute metrics from tables by pure functions, each of which states its formula."""
