"""Sum up the job's waits for data by operation."""

import polars as pl

from ms_profiler.store.format import Category


def waits(spans: pl.DataFrame, names: pl.Series) -> pl.DataFrame:
    """Return for each data operation the number of its calls and the time that callers waited for it, longest first.

    total = sum of the durations of the calls.

    Args:
        spans: `tables.SPANS`.
        names: texts by row.

    Returns:
        `operation`, `count`, `total_ns`, `max_ns`.
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
