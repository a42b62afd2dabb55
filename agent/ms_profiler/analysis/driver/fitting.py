"""Choose the part of a run that fits into the disk space of an analysis, and report the rest."""

from typing import Final

from ms_profiler.analysis.driver.room import Room
from ms_profiler.analysis.metrics.measures import Measures

#: bytes of the timelines that a slot of the store becomes, about: 160 of trace_view.json, 40 of trace.pftrace
SLOT: Final = 200
#: part of the steps that would fit by that which are taken: steps are not all alike
CAUTION: Final = 0.6
#: why something is left out
MORE: Final = "more than max_disk leaves to the analysis, a quarter of it"
TIMELINES: Final = "they take " + MORE


def narrowed(measures: Measures, room: Room, attempt: int) -> list[int] | None:
    """Return the steps that timelines keep to, so that they fit; None for all, and none where not even one fits.

    Args:
        measures: of the run.
        room: that is left to them.
        attempt: how often that was tried; what was taken for true turned out too little.
    """
    estimate = measures.recording.counts.slots * SLOT * 4**attempt
    if room.left is None or estimate <= room.left:
        return None
    numbers: list[int] = measures.steady["number"].to_list()
    return numbers[: int(len(numbers) * CAUTION * room.left / estimate)]


def left_out(measures: Measures, what: str, why: str = "it takes " + MORE) -> None:
    """Note that a file, or a part of it, is not there."""
    measures.recording.info.not_collected.append({"what": what, "why": why})
