"""Functions that compute metrics from tables, without side effects. Each function's docstring states its formula."""
