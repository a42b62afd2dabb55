"""Where the time went by name: operators and modules."""

from typing import Any

import polars as pl

from ms_profiler.analysis.columns import COLUMNS
from ms_profiler.analysis.metrics.steps import milliseconds
from ms_profiler.analysis.nesting import lanes
from ms_profiler.store.format import Category

#: names listed
TOP = 20


def self_times(spans: pl.DataFrame, taken: pl.Expr | None = None) -> pl.DataFrame:
    """Add `duration_ns` and `self_ns`: a span's duration, and what of it no span directly inside it covers.

    self(i) = duration(i) - sum of duration(j) over all j with parent(j) = i, where only the part inside i counts.

    Args:
        spans: `parent`, which numbers their rows, `start_ns`, `end_ns`, and whatever else is to be kept.
        taken: which spans are taken from those they stand in; all by default.
    """
    counted = pl.select(pl.repeat(True, spans.height)).to_series() if taken is None else spans.select(taken).to_series()
    inside = COLUMNS.inside(spans["parent"], spans["start_ns"], spans["end_ns"], counted)
    duration = spans["end_ns"] - spans["start_ns"]
    return spans.with_columns(duration.alias("duration_ns"), (duration - inside).alias("self_ns"))


def sum_up(spans: pl.DataFrame) -> pl.DataFrame:
    """Sum up spans of the same name and category.

    Args:
        spans: of `self_times`.

    Returns:
        `name` (row of the names), `category`, `count`, `total_ns`, `self_ns`, `min_ns`, `max_ns`, `squares` (sum of the
        squared durations in ns^2: exact, so that a variance does not depend on the order of the sum).
    """
    length = pl.col("duration_ns")
    # one number as the key takes a third of the time of two columns
    key = pl.col("name").cast(pl.UInt64) * 256 + pl.col("category")
    sums = spans.group_by(key.alias("key")).agg(
        pl.len().cast(pl.UInt64).alias("count"),
        length.sum().alias("total_ns"),
        pl.col("self_ns").sum(),
        length.min().alias("min_ns"),
        length.max().alias("max_ns"),
        length.cast(pl.Int128).pow(2).sum().alias("squares"),
    )
    return sums.select(
        (pl.col("key") // 256).cast(pl.UInt32).alias("name"),
        (pl.col("key") % 256).cast(pl.UInt8).alias("category"),
        pl.exclude("key"),
    )


def sums_of(spans: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """Sum up a part of the spans of a run: return what `sum_up` does, and which are still open, see `Columns.sums`.

    Args:
        spans: `tables.UNNESTED`, and `counted`.
    """
    key = spans.select(pl.col("name").cast(pl.UInt64) * 256 + pl.col("category")).to_series()
    sums, still = COLUMNS.sums(lanes(spans), spans["start_ns"], spans["end_ns"], key, spans["counted"])
    named = sums.select(
        (pl.col("key") // 256).cast(pl.UInt32).alias("name"),
        (pl.col("key") % 256).cast(pl.UInt8).alias("category"),
        pl.exclude("key"),
    )
    return named, still


def by_level(calls: pl.DataFrame) -> pl.DataFrame:
    """Sum up calls of a driver by level and name: `level`, `name` and the columns of `sum_up`, without self times.

    Args:
        calls: `tables.DRIVER_CALLS`.
    """
    length = pl.col("end_ns") - pl.col("start_ns")
    return calls.group_by("level", "name").agg(
        pl.len().cast(pl.UInt64).alias("count"),
        length.sum().alias("total_ns"),
        length.min().alias("min_ns"),
        length.max().alias("max_ns"),
        length.cast(pl.Int128).pow(2).sum().alias("squares"),
    )


def add_up(sums: list[pl.DataFrame]) -> pl.DataFrame:
    """Return the sums over several parts of a run.

    Args:
        sums: of `sum_up`, at least one.
    """
    return (
        pl.concat(sums)
        .group_by("name", "category")
        .agg(
            pl.col("count", "total_ns", "self_ns").sum(),
            pl.col("min_ns").min(),
            pl.col("max_ns").max(),
            pl.col("squares").sum(),
        )
    )


def by_name(sums: pl.DataFrame, names: pl.Series, category: Category) -> pl.DataFrame:
    """Return the sums of one category with their names, most self time first.

    Args:
        sums: of `sum_up`.
        names: texts by row.
        category: which.
    """
    chosen = sums.filter(pl.col("category") == category)
    return chosen.with_columns(names.gather(chosen["name"])).sort(
        "self_ns", "total_ns", "name", descending=[True, True, False]
    )


def top(sums: pl.DataFrame, count: int = TOP) -> list[dict[str, Any]]:
    """Return the first rows of `by_name` as records, in milliseconds."""
    return [
        {
            "name": row["name"],
            "count": row["count"],
            "total_ms": milliseconds(row["total_ns"]),
            "self_ms": milliseconds(row["self_ns"]),
            "average_ms": milliseconds(row["total_ns"] / row["count"]),
            "max_ms": milliseconds(row["max_ns"]),
        }
        for row in sums.head(count).iter_rows(named=True)
    ]
