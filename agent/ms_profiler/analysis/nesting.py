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
    processes = spans["process"].unique().sort()
    place = pl.lit(0, pl.UInt64)
    if len(processes) > 1:
        places = pl.int_range(len(processes), dtype=pl.UInt64, eager=True)
        place = pl.col("process").replace_strict(processes, places, return_dtype=pl.UInt64)
    operator = (pl.col("category") == Category.OP).cast(pl.UInt64)
    lane = spans.select((place * 2**32 + pl.col("thread").cast(pl.UInt64)) * 2 + operator).to_series()
    found = COLUMNS.nest(lane, spans["start_ns"], spans["end_ns"])
    return spans[found["row"]].with_columns(found["depth"], found["parent"])
