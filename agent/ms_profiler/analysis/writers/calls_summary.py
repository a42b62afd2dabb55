"""Make the parts of summary.json that list calls: operations on data, and callbacks of the script."""

from typing import Any

import polars as pl

from ms_profiler.analysis.metrics.steps import milliseconds


def summary(sums: pl.DataFrame) -> list[dict[str, Any]]:
    """Return a row for each name, in the order of the table.

    Args:
        sums: the calls of each name: first a column with the name, then `count`, `total_ns`, `max_ns`.
    """
    name = sums.columns[0]
    return [
        {
            name: row[name],
            "count": row["count"],
            "total_ms": milliseconds(row["total_ns"]),
            "average_us": round(row["total_ns"] / row["count"] / 1e3, 3),
            "max_us": round(row["max_ns"] / 1e3, 3),
        }
        for row in sums.iter_rows(named=True)
    ]
