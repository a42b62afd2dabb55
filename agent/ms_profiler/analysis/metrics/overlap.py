"""Compute how long each step computed, communicated, did both, or did neither."""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.phases import COMPUTING, NAMES
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.store.format import Category

#: names of the lanes of the overlap analysis, as in MindSpore's tools
LANE_COMPUTING: Final = "Computing"
LANE_COMMUNICATION: Final = "Communication"
LANE_NOT_OVERLAPPED: Final = "Communication(Not Overlapped)"
LANE_FREE: Final = "Free"


def computing(cut: pl.DataFrame) -> pl.DataFrame:
    """Return the intervals of the phases that compute the model, for runs without recorded kernels.

    Args:
        cut: the steps cut into phases, from `phases.pieces`.
    """
    return intervals.union(cut.filter(pl.col("phase").is_in(COMPUTING)))


def communicating(spans: pl.DataFrame, cut: pl.DataFrame, steps: Steps) -> pl.DataFrame:
    """Return the intervals in which the stepping process communicated.

    The stepping thread communicates in its phase "communication". Other threads of the process communicate while they
    run collectives.

    Args:
        spans: table of spans, with the columns of `tables.SPANS`.
        cut: the steps cut into phases, from `phases.pieces`.
        steps: the steps in use.
    """
    beside = spans.filter(
        pl.col("process") == steps.process,
        pl.col("thread") != steps.thread,
        pl.col("category") == Category.COMMUNICATION,
    )
    own = cut.filter(pl.col("phase") == NAMES[Category.COMMUNICATION])
    return intervals.union(pl.concat([own.select(intervals.BOUNDS), beside.select(intervals.BOUNDS)]))


def states(
    compute: pl.DataFrame, communicate: pl.DataFrame, steps: Steps, within: tuple[int, int] | None = None
) -> pl.DataFrame:
    """Cut the recorded steps wherever computing or communicating begins or ends.

    Args:
        compute: intervals of computing.
        communicate: intervals of exchanges.
        steps: the steps in use.
        within: begin and end of the time that counts, in ns; None for all time.

    Returns:
        `step` (row of `steps.table`), `computing`, `communicating`, `start_ns`, `end_ns`, sorted by time.
    """
    known = steps.table.with_row_index("step").filter("recorded")
    if within is not None:
        known, compute, communicate = (intervals.clip(part, *within) for part in (known, compute, communicate))
    line = intervals.timeline({"steps": known, "computing": compute, "communicating": communicate})
    return (
        line.filter(pl.col("steps") > 0)
        .join_asof(known.select("step", "start_ns"), on="start_ns")
        .select("step", pl.col("computing") > 0, pl.col("communicating") > 0, "start_ns", "end_ns")
    )


def by_step(pieces: pl.DataFrame) -> pl.DataFrame:
    """Return the time of each state in each step, one row per step, in ns.

    - stage: length of the step.
    - computing, communication: union of the intervals of this kind in the step.
    - overlapped: time in which the step computed and communicated at once.
    - not_overlapped = communication - overlapped.
    - free = stage - computing - not_overlapped.
    - bubble = 0, because waits of pipeline stages for each other are not recorded.
    - preparing: from the start of the step to its first computation; 0 without a computation.

    Args:
        pieces: the steps cut at changes of the state, from `states`.
    """
    return add_up([sum_up(pieces)])


def sum_up(pieces: pl.DataFrame) -> pl.DataFrame:
    """Return the sums over one part of a run. `add_up` combines the sums of all parts.

    Args:
        pieces: the steps of this part, cut at changes of the state, from `states`.
    """
    both = pl.col("computing") & pl.col("communicating")
    length = pl.col("end_ns") - pl.col("start_ns")

    def covered(condition: pl.Expr) -> pl.Expr:
        return length.filter(condition).sum()

    return pieces.group_by("step").agg(
        length.sum().alias("stage"),
        covered(pl.col("computing")).alias("computing"),
        covered(pl.col("communicating")).alias("communication"),
        covered(both).alias("overlapped"),
        covered(pl.col("communicating") & ~pl.col("computing")).alias("not_overlapped"),
        covered(~pl.col("computing") & ~pl.col("communicating")).alias("free"),
        pl.lit(0, pl.Int64).alias("bubble"),
        pl.col("start_ns").min(),
        pl.col("start_ns").filter(pl.col("computing")).min().alias("first_ns"),
    )


def add_up(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Combine the sums of all parts of a run to the columns of `by_step`.

    Args:
        parts: the sums of the parts, from `sum_up`, at least one.
    """
    moments = pl.col("start_ns", "first_ns")
    sums = pl.concat(parts).group_by("step").agg(pl.exclude("step", "start_ns", "first_ns").sum(), moments.min())
    preparing = (pl.col("first_ns") - pl.col("start_ns")).fill_null(0).alias("preparing")
    return sums.select(pl.exclude("start_ns", "first_ns"), preparing).sort("step")


def lanes(pieces: pl.DataFrame) -> pl.DataFrame:
    """Return the intervals of the four lanes: `lane`, `start_ns`, `end_ns`, sorted by lane and time.

    A device that copies memory does not count as free.

    Args:
        pieces: the steps cut at changes of the state, from `states`.
    """
    busy = pl.col("computing") | pl.col("communicating")
    if "copying" in pieces.columns:
        busy = busy | pl.col("copying").fill_null(False)
    conditions = {
        LANE_COMPUTING: pl.col("computing"),
        LANE_COMMUNICATION: pl.col("communicating"),
        LANE_NOT_OVERLAPPED: pl.col("communicating") & ~pl.col("computing"),
        LANE_FREE: ~busy,
    }
    return pl.concat(
        [
            intervals.merge(pieces.filter(condition), "step").select(pl.lit(lane).alias("lane"), "start_ns", "end_ns")
            for lane, condition in conditions.items()
        ]
    )
