"""Remove records with impossible times or numbers, which come from damaged or forged files."""

from dataclasses import replace
from typing import Final

import polars as pl

from ms_profiler.analysis.columns.slots import NO_THREAD, TIMES, Traced
from ms_profiler.store.format import CATEGORY_FINE, Category, Kind, StepSource
from ms_profiler.store.reader import ProcessStore, ReadCounts

_SECOND: Final = 10**9
_DAY: Final = 86_400 * _SECOND
#: longest time between the last time in a process's record or in its control stream, and the time of its last record
_LATER: Final = {"ended": 60 * _SECOND, "native": _DAY}
_LATER_AT_MOST: Final = 365 * _DAY  # without the C extension, hours may pass between two readings of the clock
#: largest number in a field of 64 bits that later code converts to a signed number
_LARGEST: Final = 2**62

_KIND: Final = pl.col("kind")
_EVENT: Final = _KIND.is_between(Kind.OPEN, Kind.STEP)
_STARTS: Final = _EVENT | _KIND.is_between(Kind.OPERANDS, Kind.BLOCK_PLACE)
_ENDS: Final = _EVENT | _KIND.is_in([Kind.PROCESSOR, Kind.SAMPLED, Kind.CALL])
_ORDERED: Final = (_KIND == Kind.SAMPLED) | ((_KIND == Kind.CALL) & (pl.col("end_ns") != 0))
_CATEGORIES: Final = [int(category) for category in Category if category < CATEGORY_FINE]
_SOURCES: Final = [int(source) for source in StepSource if source != StepSource.WHOLE_RUN]
#: whether a number in a slot cannot be the number that its kind has there
_ODD: Final = (
    ((_KIND == Kind.THREAD) & (~pl.col("end_ns").is_between(0, NO_THREAD) | (pl.col("arg") > NO_THREAD)))
    | ((_KIND <= Kind.SPAN) & (pl.col("category") < CATEGORY_FINE) & ~pl.col("category").is_in(_CATEGORIES))
    | ((_KIND == Kind.STEP) & (~pl.col("category").is_in(_SOURCES) | (pl.col("arg") >= _LARGEST)))
    | ((_KIND == Kind.PROCESSOR) & (pl.col("arg") >= _LARGEST))
)


def times(store: ProcessStore) -> tuple[int, int]:
    """Return the earliest and the latest time that an undamaged slot of a process can have.

    Both are RAW ns, and exact to a minute if the process wrote its end, otherwise to a day or more.

    Args:
        store: the store of the process.
    """
    info = store.info
    last = max(info.ended_ns, store.last_ns)
    if not 0 < last <= TIMES[1]:
        return TIMES
    ended = "ended" if info.state == "ended" and info.ended_ns else info.recorder
    first = min([last, *(anchor.raw_ns for anchor in store.anchors)])
    return max(first - _DAY, TIMES[0]), min(last + _LATER.get(ended, _LATER_AT_MOST), TIMES[1])


def possible(moment: int, between: tuple[int, int]) -> bool:
    """Return whether an undamaged slot can have this time.

    Args:
        moment: the time, ns of CLOCK_MONOTONIC_RAW.
        between: the earliest and the latest time, as `times` returns them.
    """
    return between[0] <= moment <= between[1]


def sound(slots: pl.DataFrame, between: tuple[int, int], counts: ReadCounts) -> pl.DataFrame:
    """Remove the slots that have impossible times or numbers, and count them.

    `columns.slots.FORWARDS` checks whether spans and other single events end after they begin.

    Args:
        slots: rows of `columns.slots.SLOTS`.
        between: the earliest and the latest time, as `times` returns them.
        counts: receives the numbers of removed slots.
    """
    first, last = between
    late = (
        (_STARTS & ~pl.col("start_ns").is_between(first, last))
        | (_ENDS & ~pl.col("end_ns").is_between(0, last))
        | (_ORDERED & (pl.col("end_ns") < pl.col("start_ns")))
        | ((_KIND == Kind.THREAD) & ~pl.col("start_ns").is_between(0, last))
    )
    found = slots.select(late=late, odd=_ODD & ~late)
    if not (found["late"].any() or found["odd"].any()):
        return slots
    counts.backwards += int(found["late"].sum())
    counts.impossible += int(found["odd"].sum())
    return slots.filter(~(found["late"] | found["odd"]))


def sound_tasks(traced: Traced, between: tuple[int, int], counts: ReadCounts) -> Traced:
    """Remove the records of a device that have impossible times, and count them.

    Args:
        traced: the records, with times since the epoch.
        between: the earliest and the latest time, ns since the epoch.
        counts: receives the number of removed records.
    """
    for name in ("calls", "ran", "others"):
        rows = getattr(traced, name)
        # an impossible time plus the clock's offset may exceed Int64, so that the sum became a negative number
        damaged = (rows["end_ns"] < rows["start_ns"]) | (rows["start_ns"] < between[0]) | (rows["end_ns"] > between[1])
        if damaged.any():
            counts.backwards += int(damaged.sum())
            traced = replace(traced, **{name: rows.filter(~damaged)})
    return traced
