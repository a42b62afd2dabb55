"""Make tables of intervals whose times a test writes by hand, in microseconds."""

import polars as pl

US = 1000
BOUNDS = {"start_ns": pl.Int64, "end_ns": pl.Int64}
_TIMES = pl.col("^.*_ns$")


def table(rows, **schema):
    """Return a table of rows; columns named `..._ns` have microseconds in the rows, and nanoseconds in the table."""
    return pl.DataFrame(list(rows), schema=schema, orient="row").with_columns(_TIMES * US)


def spans(*pairs):
    """Return a table of intervals from pairs (start, end) in microseconds."""
    return table(pairs, **BOUNDS)


def phases(*rows):
    """Return a table with the phases of steps from rows (step, phase, start, end), with times in microseconds."""
    return table(rows, step=pl.UInt32, phase=pl.String, **BOUNDS)


def shown(found):
    """Return the rows of a table with their times in microseconds instead of nanoseconds."""
    return found.with_columns(_TIMES // US).rows()
