"""Add up the time that the job waited for data, for each data operation."""

import polars as pl

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
    sums = (
        spans.filter(pl.col("category") == Category.DATA)
        .group_by("name")
        .agg(
            pl.len().alias("count"),
            (pl.col("end_ns") - pl.col("start_ns")).sum().alias("total_ns"),
            (pl.col("end_ns") - pl.col("start_ns")).max().alias("max_ns"),
        )
    )
    return sums.select(names.gather(sums["name"]).alias("operation"), "count", "total_ns", "max_ns").sort(
        "total_ns", "operation", descending=[True, False]
    )
