"""Add up the calls of the spans of one name."""

import polars as pl


def sums(spans: pl.DataFrame, names: pl.Series) -> pl.DataFrame:
    """Return the calls of each name, the longest total first.

    Args:
        spans: spans, with the columns of `tables.SPANS`.
        names: the names of the recording; spans refer to names by row.

    Returns:
        `name`, `count` (number of calls), `total_ns` (sum of the durations of the calls), `max_ns` (duration of the
        longest call).
    """
    length = pl.col("end_ns") - pl.col("start_ns")
    found = spans.group_by("name").agg(
        pl.len().alias("count"), length.sum().alias("total_ns"), length.max().alias("max_ns")
    )
    found = found.with_columns(names.gather(found["name"]).alias("name"))
    return found.sort("total_ns", "name", descending=[True, False])
