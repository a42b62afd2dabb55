"""Arithmetic on sets of intervals: unions, differences, intersections and sums of weights."""

from collections.abc import Mapping

import polars as pl

from ms_profiler.analysis.columns import COLUMNS

#: columns of a set of intervals
BOUNDS = ("start_ns", "end_ns")


def timeline(sets: Mapping[str, pl.DataFrame], weights: Mapping[str, str] | None = None) -> pl.DataFrame:
    """Cut time at every start and end of an interval. Add up the weights of the intervals that contain each piece.

    sum after cut t = (weights of the intervals with start <= t) - (weights of the intervals with end <= t)

    To save memory, each set is looked up on its own; no table holds the ends of all sets. The run time is O(n log n)
    for n intervals.

    Args:
        sets: label -> intervals (`start_ns`, `end_ns`); the intervals of one set may overlap.
        weights: label -> name of the column that contains the weights of the set's intervals. If a set has no such
            entry, each of its weights is 1.

    Returns:
        The pieces: `start_ns`, `end_ns`, and for each label an Int64 column with the sum of the set's weights. The
        pieces have no gaps between them, and are sorted by time.
    """
    cuts = pl.concat([frame[bound] for frame in sets.values() for bound in BOUNDS]).unique().sort()
    columns = [cuts.alias("start_ns"), cuts.shift(-1).alias("end_ns")]
    for label, frame in sets.items():
        began, ended = (_until(frame, bound, (weights or {}).get(label), cuts) for bound in BOUNDS)
        columns.append((began - ended).alias(label))
    return pl.DataFrame(columns)[:-1]


def _until(frame: pl.DataFrame, bound: str, weight: str | None, cuts: pl.Series) -> pl.Series:
    """Return for each cut (a time) the total weight (Int64) of the intervals whose `bound` is at or before it."""
    if frame.is_empty():
        return pl.zeros(len(cuts), dtype=pl.Int64, eager=True)
    if weight is None:
        return frame[bound].sort().search_sorted(cuts, side="right").cast(pl.Int64)
    known = frame.select(bound, pl.col(weight).cast(pl.Int64)).sort(bound)
    sums = pl.concat([pl.Series([0], dtype=pl.Int64), known[weight].cum_sum()])
    return sums.gather(known[bound].search_sorted(cuts, side="right"))


def union(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the time covered by any interval of `frame`, as disjoint intervals sorted by time."""
    known = frame.select(BOUNDS)
    if known.is_empty():
        return known  # most sets of a small run are empty, and the queries below take a millisecond
    known = known.filter(pl.col("end_ns") > pl.col("start_ns")).sort("start_ns")
    highest = known["end_ns"].cum_max()
    first = (known["start_ns"] > highest.shift(1)).fill_null(True)
    return pl.DataFrame([known["start_ns"].filter(first), highest.filter(_last(first))])


def subtract(frame: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """Return the time covered by `frame` and not by `other`, as disjoint intervals sorted by time."""
    if frame.is_empty() or other.is_empty():
        return union(frame)
    pieces = timeline({"in": frame, "out": other}).filter(pl.col("in") > 0, pl.col("out") == 0)
    return merge(pieces.select(BOUNDS))


def intersect(frame: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """Return the time covered by both `frame` and `other`, as disjoint intervals sorted by time."""
    if frame.is_empty() or other.is_empty():
        return frame.select(BOUNDS).clear()
    pieces = timeline({"in": frame, "also": other}).filter(pl.col("in") > 0, pl.col("also") > 0)
    return merge(pieces.select(BOUNDS))


def clip(frame: pl.DataFrame, start_ns: int, end_ns: int) -> pl.DataFrame:
    """Return the parts of the intervals that lie between `start_ns` and `end_ns`."""
    return frame.filter(pl.col("end_ns") > start_ns, pl.col("start_ns") < end_ns).with_columns(
        pl.col("start_ns").clip(lower_bound=start_ns), pl.col("end_ns").clip(upper_bound=end_ns)
    )


def locate(times: pl.Series, frame: pl.DataFrame) -> pl.Series:
    """Return for each time the row of the interval that contains it, as UInt32; null if no interval contains it.

    Args:
        times: the times in ns, as Int64.
        frame: disjoint intervals, sorted by time; the end of an interval does not belong to it.
    """
    return COLUMNS.locate(times, frame["start_ns"], frame["end_ns"])


def merge(pieces: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Join neighbouring pieces that touch and have the same values in the columns `keys`.

    Args:
        pieces: `start_ns`, `end_ns` and the columns `keys`, without overlap, sorted by time.
    """
    if pieces.is_empty():
        return pieces.select("start_ns", "end_ns", *keys)
    change = pl.col("start_ns") != pl.col("end_ns").shift(1)
    for key in keys:
        change = change | pl.col(key).ne_missing(pl.col(key).shift(1))
    first = pieces.select(change.fill_null(True)).to_series()
    ends = pieces["end_ns"].filter(_last(first))
    return pieces.select("start_ns", "end_ns", *keys).filter(first).with_columns(ends)


def _last(first: pl.Series) -> pl.Series:
    """Return for each row whether it is the last row of its block; `first` marks the first row of each block."""
    return first.shift(-1, fill_value=True)


def total_ns(frame: pl.DataFrame) -> int:
    """Return the sum of the durations, in ns."""
    return int((frame["end_ns"] - frame["start_ns"]).sum())
