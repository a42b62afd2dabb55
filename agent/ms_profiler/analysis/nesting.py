"""Which span stands inside which: depth and parent from the times alone."""

import polars as pl

from ms_profiler.store.format import Category

#: what fits into the column
_DEEPEST = 2**16 - 1
_LANE = ["process", "thread", "operator"]


def nest(spans: pl.DataFrame) -> pl.DataFrame:
    """Sort spans by thread and start, longest first, and add `depth` and `parent`.

    Operators are nested among themselves only: what the framework's own tracer reports for a thread may have run
    beside it. With the spans of a thread in this order, and i the row of one,
    depth(i) = i - (spans that ended at or before start(i)), and the parent of i is the last row before i with
    depth(i) - 1. A span without duration counts as one nanosecond long, so that it stands in something.

    Args:
        spans: `process`, `thread`, `category`, `start_ns`, `end_ns` and whatever else is to be kept.
    """
    ordered = spans.with_columns(operator=pl.col("category") == Category.OP).sort(
        *_LANE, "start_ns", "end_ns", descending=[False, False, False, False, True], maintain_order=True
    )
    lengths = ordered.select(_LANE).group_by(_LANE, maintain_order=True).len()["len"]
    depths, parents = [], []
    first = 0
    for length in lengths:
        depth, parent = _nest_lane(ordered["start_ns"].slice(first, length), ordered["end_ns"].slice(first, length))
        depths.append(depth)
        parents.append(parent + first)
        first += length
    return ordered.drop("operator").with_columns(
        pl.concat([pl.Series("depth", [], pl.UInt16), *depths]),
        pl.concat([pl.Series("parent", [], pl.UInt32), *parents]),
    )


def _nest_lane(starts: pl.Series, ends: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return depth and parent row of the spans of one lane, sorted by start, longest first."""
    rows = pl.int_range(len(starts), dtype=pl.UInt32, eager=True)
    reach = pl.select(pl.max_horizontal(ends, starts + 1)).to_series().sort()
    depth = rows.cast(pl.Int64) - reach.search_sorted(starts, side="right").cast(pl.Int64)
    depth = depth.clip(upper_bound=_DEEPEST).cast(pl.UInt16).alias("depth")
    outer = rows.filter(depth == 0)
    parent = pl.repeat(None, len(rows), dtype=pl.UInt32, eager=True)
    level = 0
    while len(outer):
        level += 1
        inner = rows.filter(depth == level)
        parent = parent.scatter(inner, outer.gather(outer.search_sorted(inner) - 1))
        outer = inner
    return depth, parent.alias("parent")
