"""Choose the part of a run that fits into the disk space of an analysis, and report the rest."""

from typing import Final

from ms_profiler.analysis.driver.room import Room
from ms_profiler.analysis.metrics.measures import Measures

#: estimated bytes that the timelines take for each slot of the store: 160 in trace_view.json, 40 in trace.pftrace
SLOT: Final = 200
#: of the steps that would fit by this estimate, only this part is shown, because steps differ in size
CAUTION: Final = 0.6
#: the reason, in messages, why a file is left out
MORE: Final = "more than a quarter of max_disk, which is the share of the analysis"
TIMELINES: Final = "they take " + MORE


def narrowed(measures: Measures, room: Room, attempt: int) -> list[int] | None:
    """Choose as many steps for the timelines as fit; return None for all steps, an empty list if not even one fits.

    Args:
        measures: the measures of the run.
        room: the disk space that is left for the timelines.
        attempt: number of the attempt, from 0; each further attempt takes fewer steps.
    """
    estimate = measures.recording.counts.slots * SLOT * 4**attempt
    if room.left is None or estimate <= room.left:
        return None
    numbers: list[int] = measures.steady["number"].to_list()
    return numbers[: int(len(numbers) * CAUTION * room.left / estimate)]


def left_out(measures: Measures, what: str, why: str = "it takes " + MORE) -> None:
    """Note in the measures that a file, or a part of it, is left out."""
    measures.recording.info.not_collected.append({"what": what, "why": why})
