"""Choose the steps whose timelines fit into the disk space of an analysis, and report what is left out."""

from typing import Final

import polars as pl

from ms_profiler.analysis.driver.room import Room
from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.measures import Measures

#: estimated bytes that the timelines take for each slot of the store: 160 in trace_view.json, 40 in trace.pftrace
SLOT: Final = 200
#: shown steps = CAUTION * number of steps that fit by the estimate `SLOT`. CAUTION is below 1: steps differ in size
CAUTION: Final = 0.6
#: the reason, in messages, why a file is left out
MORE: Final = "more than a quarter of max_disk, which is the share of the analysis"
TIMELINES: Final = "they take " + MORE


def narrowed(measures: Measures, room: Room, attempt: int) -> list[int] | None:
    """Choose as many steps for the timelines as fit; return None for all steps, an empty list if not even one fits.

    Attempt 0 takes the first steps of the run. They may need more space than estimated, for example because other
    processes recorded much during a slow step. Then the caller tries again. Each further attempt takes a quarter as
    many consecutive steps, at least one. It takes those with the most spans that are estimated to fit.

    Args:
        measures: the measures of the run.
        room: the disk space that is left for the timelines.
        attempt: number of the attempt, from 0.
    """
    needed = measures.recording.counts.slots * SLOT
    if room.left is None or needed * 4**attempt <= room.left:
        return None
    steps = measures.steady
    counts = [max(1, int(steps.height * CAUTION * room.left / (needed * 4**number))) for number in range(attempt + 1)]
    if steps.is_empty() or counts[-2:] == [1, 1]:
        return []
    numbers: list[int] = steps["number"].to_list()
    first = _fullest(measures, steps, counts[-1], CAUTION * room.left / SLOT) if attempt else 0
    return numbers[first : first + counts[-1]]


def _fullest(measures: Measures, steps: pl.DataFrame, count: int, most: float) -> int:
    """Choose `count` consecutive steps with as many spans as possible, up to `most`; return the row of the first step.

    If all choices have more than `most` spans, choose the steps with the fewest spans.
    """
    found = intervals.locate(measures.spans["start_ns"], steps).alias("at").to_frame().group_by("at").len("spans")
    known = steps.with_row_index("at").join(found, on="at", how="left", maintain_order="left")
    sums = known["spans"].fill_null(0).cast(pl.Float64).rolling_sum(count)[count - 1 :]
    fitting = sums.set(sums > most, None)
    return (sums.arg_min() if fitting.null_count() == len(fitting) else fitting.arg_max()) or 0


def left_out(measures: Measures, what: str, why: str = "it takes " + MORE) -> None:
    """Note in the measures that a file, or a part of it, is left out."""
    measures.recording.info.not_collected.append({"what": what, "why": why})
