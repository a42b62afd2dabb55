"""Which span stands inside which: depth and parent from the times alone."""

import polars as pl

from ms_profiler.analysis.columns import COLUMNS
from ms_profiler.store.format import Category


def nest(spans: pl.DataFrame) -> pl.DataFrame:
    """Sort spans by thread and start, longest first, and add `depth` and `parent`, see `Columns.nest`.

    Operators are nested among themselves only: what the framework's own tracer reports for a thread may have run
    beside it.

    Args:
        spans: `process`, `thread`, `category`, `start_ns`, `end_ns` and whatever else is to be kept.
    """
    found = order(spans)
    return spans[found["row"]].with_columns(found["depth"], found["parent"])


def order(spans: pl.DataFrame) -> pl.DataFrame:
    """Return `row`, `depth` and `parent` of spans in the order of `nest`.

    Args:
        spans: `process`, `thread`, `category`, `start_ns`, `end_ns`.
    """
    return COLUMNS.nest(lanes(spans), spans["start_ns"], spans["end_ns"])


def lanes(spans: pl.DataFrame) -> pl.Series:
    """Return the lane of each span as UInt64, `lane`: spans of one may stand in each other.

    Args:
        spans: `process`, `thread`, `category`.
    """
    processes = spans["process"].unique().sort()
    place = pl.lit(0, pl.UInt64)
    if len(processes) > 1:
        places = pl.int_range(len(processes), dtype=pl.UInt64, eager=True)
        place = pl.col("process").replace_strict(processes, places, return_dtype=pl.UInt64)
    operator = (pl.col("category") == Category.OP).cast(pl.UInt64)
    lane = (place * 2**32 + pl.col("thread").cast(pl.UInt64)) * 2 + operator
    return spans.select(lane.alias("lane")).to_series()
