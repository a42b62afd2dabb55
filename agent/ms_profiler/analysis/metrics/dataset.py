"""Add up the time that the job waited for data, for each data operation."""

import polars as pl

from ms_profiler.analysis.metrics import call_sums
from ms_profiler.store.format import Category


def waits(spans: pl.DataFrame, names: pl.Series) -> pl.DataFrame:
    """Return the time that the job waited for each data operation, the longest total first.

    Args:
        spans: table of spans, with the columns of `tables.SPANS`.
        names: the names of the recording; spans refer to names by row.

    Returns:
        `operation`, `count` (number of calls), `total_ns` (sum of the durations of the calls), `max_ns` (duration of
        the longest call).
    """
    found = call_sums.sums(spans.filter(pl.col("category") == Category.DATA), names)
    return found.rename({"name": "operation"})
