"""Sum up the time in which backward passes recompute the forward passes of modules (activation checkpointing)."""

from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.passes import RECOMPUTE
from ms_profiler.analysis.metrics.steps import Steps, milliseconds
from ms_profiler.store.format import Category

#: largest number of recomputed modules that are named
NAMED: Final = 5


def summary(steady: pl.DataFrame, steps: Steps, spans: pl.DataFrame, names: pl.Series) -> dict[str, Any] | None:
    """Return how much of the steps' time goes into recomputations; None if nothing is recomputed.

    Only time on the host is known. If an accelerator computes, this is the time in which the host queues kernels.

    Args:
        steady: the recorded steady steps.
        steps: the steps in use.
        spans: the spans of the run.
        names: the names of the recording.

    Returns:
        `per_step_ms`, `share` (of the time of these steps), `modules` (what is recomputed, the longest first), and
        `count` (how many names there are).
    """
    texts = names.to_frame("text").with_row_index("name").filter(pl.col("text").str.starts_with(RECOMPUTE))
    own = spans.filter(
        pl.col("process") == steps.process,
        pl.col("category") == int(Category.BACKWARD),
        pl.col("name").is_in(texts["name"].implode()),
    )
    own = own.filter(intervals.locate(own["start_ns"], steady).is_not_null())
    if own.is_empty():
        return None
    took_ns = intervals.total_ns(intervals.union(own))
    by_name = own.group_by("name").agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("ns"))
    ranked = by_name.sort("ns", "name", descending=[True, False])["name"]
    modules = names.gather(ranked).str.slice(len(RECOMPUTE))
    return {
        "per_step_ms": milliseconds(took_ns / steady.height),
        "share": round(took_ns / max(int(steady["duration_ns"].sum()), 1), 6),
        "modules": modules.head(NAMED).to_list(),
        "count": modules.len(),
    }
