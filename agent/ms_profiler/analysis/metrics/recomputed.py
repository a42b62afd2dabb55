"""Sum up the time in which backward passes recompute the forward passes of modules (activation checkpointing)."""

from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.passes import RECOMPUTE
from ms_profiler.analysis.metrics.steps import Steps, milliseconds
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category

#: largest number of recomputed modules that are named
NAMED: Final = 5


def summary(steady: pl.DataFrame, steps: Steps, recording: tables.Recording) -> dict[str, Any] | None:
    """Return how much of the steps' time goes into recomputations; None if PyTorch recomputes nothing.

    Only time on the host is known. If an accelerator computes, this is the time in which the host queues kernels. The
    span of a recomputation may contain the backward pass of what was recomputed, which does not count. MindSpore's
    spans contain more than that, so its recomputations are left out.

    Args:
        steady: the recorded steady steps.
        steps: the steps in use.
        recording: the run.

    Returns:
        `per_step_ms`, `share` (of the time of these steps), `modules` (what is recomputed, the longest first), and
        `count` (how many names there are).
    """
    if recording.info.framework.get("name") != "torch":
        return None
    spans, names = recording.spans, recording.names
    again = pl.col("name").is_in(names.str.starts_with(RECOMPUTE).arg_true().implode())
    passes = spans.filter(pl.col("process") == steps.process, pl.col("category") == int(Category.BACKWARD))
    passes = passes.filter(intervals.locate(passes["start_ns"], steady).is_not_null())
    found = []
    for (depth,), own in passes.filter(again).group_by("depth"):
        deeper = passes.filter(~again, pl.col("depth") > depth)
        found.append(intervals.subtract(intervals.union(own), intervals.union(deeper)))
    if not found:
        return None
    took_ns = intervals.total_ns(intervals.union(pl.concat(found)))
    by_name = passes.filter(again).group_by("name").agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("ns"))
    ranked = by_name.sort("ns", "name", descending=[True, False])["name"]
    modules = names.gather(ranked).str.slice(len(RECOMPUTE))
    return {
        "per_step_ms": milliseconds(took_ns / steady.height),
        "share": round(took_ns / max(int(steady["duration_ns"].sum()), 1), 6),
        "modules": modules.head(NAMED).to_list(),
        "count": modules.len(),
    }
