"""Find few steps that were not sampled and take much of the time of all steps, for example because the job slept.

The length of every step is known. The sampled steps do not show such a step, and it is no example of the other steps.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics import intervals, pauses, phases, scheduling
from ms_profiler.analysis.metrics.steps import Steps, milliseconds, slowest
from ms_profiler.analysis.model import tables

#: a step is long if it takes at least this many times the median of all steps, and this part of their time
TIMES: Final = 5.0
PART: Final = 0.02
#: long steps count if all of them take at least this part of the time of all steps, and if they are few
MUCH: Final = 0.1
FEW: Final = 0.1
#: largest number of long steps that are listed
LISTED: Final = 5


@dataclass(frozen=True)
class Long:
    """Few steps that were not sampled and take much of the time.

    Attributes:
        table: rows of `Steps.table` with `row`.
        share: their part of the time of all steps.
    """

    table: pl.DataFrame
    share: float


def found(steps: Steps) -> Long | None:
    """Return the long steps among those that `overhead_budget` left out; None if these do not take much of the time.

    Args:
        steps: the steps in use.
    """
    length, whole = pl.col("duration_ns"), int(steps.table["duration_ns"].sum())
    least = pl.max_horizontal(TIMES * length.median(), pl.lit(PART * whole))
    marked = steps.table.with_row_index("row").filter(length >= least, pl.col("content") == tables.COARSE)
    share = int(marked["duration_ns"].sum()) / max(whole, 1)
    if share < MUCH or marked.height > max(FEW * steps.table.height, 1):
        return None
    return Long(marked, share)


def summary(steps: Steps, spans: pl.DataFrame, looks: pl.DataFrame, names: pl.Series) -> dict[str, Any] | None:
    """Return what is known of the long steps; None if there are none.

    Args:
        steps: the steps in use.
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        looks: the samples of threads, with the columns of `tables.LOOKS`.
        names: texts by row.

    Returns:
        `count`, `share` (of the time of all steps), `total_ms`, `steps` (the longest ones: `number` and `ms`),
        `contains_ms` (phase -> its time in them, the largest first), `asleep_ms` (for how long the stepping thread was
        asleep or blocked in them), and `collecting_ms` (for how long Python collected garbage in them).
    """
    long = found(steps)
    if long is None:
        return None
    chosen = replace(steps, table=long.table.drop("row").with_columns(recorded=pl.lit(True)))
    times = phases.by_step(phases.pieces(spans, chosen)).group_by("phase").agg(pl.col("duration_ns").sum())
    times = times.sort("duration_ns", "phase", descending=[True, False])
    collected = pauses.collections(spans, names, steps).select(intervals.BOUNDS)
    slept = scheduling.asleep(scheduling.cells(looks, steps.process, steps.thread))
    inside = intervals.timeline({"step": long.table, "asleep": slept}).filter(pl.col("step") > 0, pl.col("asleep") > 0)
    return {
        "count": long.table.height,
        "share": round(long.share, 6),
        "total_ms": milliseconds(long.table["duration_ns"].sum()),
        "steps": slowest(long.table, LISTED),
        "contains_ms": {phase: milliseconds(duration) for phase, duration in times.iter_rows()},
        "asleep_ms": milliseconds(intervals.total_ns(inside)),
        "collecting_ms": milliseconds(intervals.total_ns(intervals.intersect(collected, long.table))),
    }
