"""Choose the part of a run that fits into the disk space of an analysis, and report the rest."""

from typing import Final

from ms_profiler.analysis.driver.room import Room
from ms_profiler.analysis.metrics.measures import Measures

#: estimated bytes of the timelines for a slot of the store: 160 of trace_view.json, 40 of trace.pftrace
SLOT: Final = 200
#: part of the steps that would fit by this estimate; fewer are taken, because steps differ
CAUTION: Final = 0.6
#: reason for leaving something out
MORE: Final = "more than a quarter of max_disk, which is the share of the analysis"
TIMELINES: Final = "they take " + MORE


def narrowed(measures: Measures, room: Room, attempt: int) -> list[int] | None:
    """Return the steps that the timelines show, so that they fit; None for all, an empty list if not even one fits.

    Args:
        measures: the measures of the run.
        room: disk space that is left for them.
        attempt: number of the attempt, from 0; each one takes fewer steps.
    """
    estimate = measures.recording.counts.slots * SLOT * 4**attempt
    if room.left is None or estimate <= room.left:
        return None
    numbers: list[int] = measures.steady["number"].to_list()
    return numbers[: int(len(numbers) * CAUTION * room.left / estimate)]


def left_out(measures: Measures, what: str, why: str = "it takes " + MORE) -> None:
    """Note that a file, or a part of it, is left out."""
    measures.recording.info.not_collected.append({"what": what, "why": why})
