"""Which span stands inside which: depth and parent from the times alone."""

import polars as pl

from ms_profiler.store.format import Category

_THREAD = ["process", "thread", "operator"]


def nest(spans: pl.DataFrame) -> pl.DataFrame:
    """Sort spans by thread and start, longest first, and add `depth` and `parent`.

    Operators are nested among themselves only: what the framework's own tracer reports for a thread may have run
    beside it. With spans in this order, and i its row in the thread,
    depth(i) = i - (spans of the thread that ended at or before start(i)), and the parent of i is the last row before
    i with depth(i) - 1. A span without duration counts as one nanosecond long, so that it stands in something.

    Args:
        spans: `process`, `thread`, `category`, `start_ns`, `end_ns` and whatever else is to be kept.
    """
    ordered = spans.with_columns(operator=pl.col("category") == Category.OP).sort(
        *_THREAD, "start_ns", "end_ns", descending=[False, False, False, False, True], maintain_order=True
    )
    reach = pl.max_horizontal("end_ns", pl.col("start_ns") + 1)
    ended = (
        ordered.select(*_THREAD, ended_ns=reach)
        .sort(*_THREAD, "ended_ns")
        .with_columns(ended=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over(_THREAD))
    )
    depths = (
        ordered.select(*_THREAD, "start_ns", before=pl.int_range(pl.len(), dtype=pl.Int64).over(_THREAD))
        .join_asof(ended, left_on="start_ns", right_on="ended_ns", by=_THREAD, check_sortedness=False)
        .select(*_THREAD, depth=(pl.col("before") - pl.col("ended").fill_null(0)).clip(0).cast(pl.UInt16))
        .with_row_index("row")
    )
    parents = depths.select(*_THREAD, "row", depth=pl.col("depth").cast(pl.Int32) - 1).join_asof(
        depths.select(*_THREAD, pl.col("depth").cast(pl.Int32), "row", parent="row"),
        on="row",
        by=[*_THREAD, "depth"],
        check_sortedness=False,
    )
    return ordered.with_columns(depths["depth"], parents["parent"]).drop("operator")
