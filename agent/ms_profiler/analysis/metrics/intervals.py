"""Arithmetic on sets of intervals, by one sweep over their ends."""

from collections.abc import Mapping

import polars as pl

from ms_profiler.analysis.columns import COLUMNS

#: columns of a set of intervals
BOUNDS = ("start_ns", "end_ns")


def timeline(sets: Mapping[str, pl.DataFrame], weights: Mapping[str, str] | None = None) -> pl.DataFrame:
    """Cut time at every start and end, and sum the weights of open intervals between two cuts.

    Each interval adds its weight at its start and subtracts it at its end; the result is the running sum over the cuts
    in order of time. O(n log n) for n intervals.

    Args:
        sets: intervals (`start_ns`, `end_ns`) by label; the intervals of one set may overlap.
        weights: the column with the weight of an interval, by label; by default 1.

    Returns:
        `start_ns`, `end_ns` and one Int64 column a label, without gaps and by time.
    """
    events = []
    for label, frame in sets.items():
        weight = pl.col(weights[label]) if weights and label in weights else pl.lit(1)
        weight = weight.cast(pl.Int64)
        events.append(frame.select(pl.col("start_ns").alias("time_ns"), weight.alias(label)))
        events.append(frame.select(pl.col("end_ns").alias("time_ns"), (-weight).alias(label)))
    cuts = (
        pl.concat(events, how="diagonal")
        .group_by("time_ns")
        .agg(pl.col(label).sum() for label in sets)
        .sort("time_ns")
        .with_columns(pl.col(label).cum_sum() for label in sets)
    )
    return cuts.select(
        pl.col("time_ns").alias("start_ns"), pl.col("time_ns").shift(-1).alias("end_ns"), *sets
    ).drop_nulls("end_ns")


def union(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the time covered by any interval of `frame`, as disjoint intervals by time."""
    highest = pl.col("end_ns").cum_max().shift(1)
    return (
        frame.select(BOUNDS)
        .filter(pl.col("end_ns") > pl.col("start_ns"))
        .sort("start_ns")
        .with_columns(block=(pl.col("start_ns") > highest).fill_null(True).cum_sum())
        .group_by("block", maintain_order=True)
        .agg(pl.col("start_ns").first(), pl.col("end_ns").max())
        .select(BOUNDS)
    )


def subtract(frame: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """Return the time in `frame` and not in `other`, as disjoint intervals by time."""
    pieces = timeline({"in": frame, "out": other}).filter(pl.col("in") > 0, pl.col("out") == 0)
    return merge(pieces.select(BOUNDS))


def intersect(frame: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """Return the time in `frame` and in `other`, as disjoint intervals by time."""
    pieces = timeline({"in": frame, "also": other}).filter(pl.col("in") > 0, pl.col("also") > 0)
    return merge(pieces.select(BOUNDS))


def clip(frame: pl.DataFrame, start_ns: int, end_ns: int) -> pl.DataFrame:
    """Return the parts of the intervals from `start_ns` to `end_ns`."""
    return frame.filter(pl.col("end_ns") > start_ns, pl.col("start_ns") < end_ns).with_columns(
        pl.col("start_ns").clip(lower_bound=start_ns), pl.col("end_ns").clip(upper_bound=end_ns)
    )


def locate(times: pl.Series, frame: pl.DataFrame) -> pl.Series:
    """Return for each time the row of the interval that contains it, as UInt32; null if none does.

    Args:
        times: Int64.
        frame: disjoint intervals by time; the end of an interval does not belong to it.
    """
    return COLUMNS.locate(times, frame["start_ns"], frame["end_ns"])


def merge(pieces: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Join pieces that touch and agree in `keys`.

    Args:
        pieces: `start_ns`, `end_ns` and `keys`, apart from each other and by time.
    """
    change = pl.col("start_ns") != pl.col("end_ns").shift(1)
    for key in keys:
        change = change | pl.col(key).ne_missing(pl.col(key).shift(1))
    return (
        pieces.with_columns(block=change.fill_null(True).cum_sum())
        .group_by("block", maintain_order=True)
        .agg(pl.col("start_ns").first(), pl.col("end_ns").last(), *(pl.col(key).first() for key in keys))
        .drop("block")
    )


def total_ns(frame: pl.DataFrame) -> int:
    """Return the sum of the durations."""
    return int((frame["end_ns"] - frame["start_ns"]).sum())
