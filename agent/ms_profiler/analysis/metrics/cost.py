"""Estimate the cost of recording for the job."""

from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.steps import milliseconds
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category
from ms_profiler.store.names import KERNEL_DRAIN, REQUESTED

#: what `with_stack` traces, in the words of `beside`
CALLS: Final = "calls of Python functions"


def cost(recording: tables.Recording, run_ns: int, pairs: dict[str, Any] | None = None) -> dict[str, Any]:
    """Estimate the time that recording took from the job.

    estimated = records * span_ns + start_ns + union(drains, requested)
    share = estimated / run_ns

    - span_ns: cost of one recorded span with its hook.
    - start_ns: cost of starting the recording.
    - drains: spans in which the kernel stream was written.
    - requested: spans of work that the script's own profiler requested, for example an analysis.

    The cost of the interfaces that trace a device, such as CUPTI, is in none of these, and neither is that of traced
    calls of Python functions. `beside` has their names.

    The job measured span_ns and start_ns on its own machine. Without these two values, the estimate is None.

    Args:
        recording: the run.
        run_ns: duration of the run.
        pairs: measured effect of recording on steps, from `paired.paired`; None if unknown.
    """
    records = int(recording.processes["records"].sum())
    measured = recording.info.cost
    span_ns = float(measured.get("span_ns", 0.0))
    start_ns = float(measured.get("start_ns", 0.0))
    own = recording.spans.filter(pl.col("category") == Category.PROFILER)
    drains = own.filter(recording.names.gather(own["name"]) == KERNEL_DRAIN)
    requested = own.filter(recording.names.gather(own["name"]) == REQUESTED)
    spent_ns = intervals.total_ns(intervals.union(pl.concat([drains, requested])))
    estimate = records * span_ns + start_ns + spent_ns if span_ns > 0 else None
    beside = {str(taken["interface"]) for taken in recording.info.device_sources.values()}
    if recording.info.options.get("with_stack") is True:
        beside.add(CALLS)
    return {
        "spans": records,
        "span_ns": span_ns or None,
        "idle_ns": float(measured.get("idle_ns", 0.0)) or None,
        "start_ms": milliseconds(start_ns) if start_ns else None,
        "drains": drains.height,
        "drain_ms": milliseconds(intervals.total_ns(drains)),
        "requested_ms": milliseconds(intervals.total_ns(intervals.union(requested))),
        "profiler_ms": milliseconds(intervals.total_ns(intervals.union(own))),
        "estimated_ms": None if estimate is None else milliseconds(estimate),
        "share_of_run": None if estimate is None or run_ns <= 0 else round(estimate / run_ns, 6),
        "paired": pairs,
        "beside": sorted(beside),
    }
