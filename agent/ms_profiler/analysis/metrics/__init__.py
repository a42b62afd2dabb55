"""Metrics: pure functions of tables. The docstring of each function states its formula."""
