"""Make tables of intervals that are written by hand, in microseconds."""

import polars as pl

US = 1000
BOUNDS = {"start_ns": pl.Int64, "end_ns": pl.Int64}
_TIMES = pl.col("^.*_ns$")


def table(rows, **schema):
    """Return a table; times in the rows are microseconds, those in the columns named `..._ns` nanoseconds."""
    return pl.DataFrame(list(rows), schema=schema, orient="row").with_columns(_TIMES * US)


def spans(*pairs):
    """Return intervals: (start, end)."""
    return table(pairs, **BOUNDS)


def phases(*rows):
    """Return pieces of steps: (step, phase, start, end)."""
    return table(rows, step=pl.UInt32, phase=pl.String, **BOUNDS)


def shown(found):
    """Return the rows of a table with its times in microseconds."""
    return found.with_columns(_TIMES // US).rows()
