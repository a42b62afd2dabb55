"""Remove records with impossible times, which come from damaged or forged files."""

from dataclasses import replace

import polars as pl

from ms_profiler.analysis.columns.slots import TIMES, Traced
from ms_profiler.store.format import Kind

_STARTS = pl.col("kind") >= Kind.OPERANDS
_ENDS = pl.col("kind").is_in([Kind.PROCESSOR, Kind.SAMPLED, Kind.CALL])
_IMPOSSIBLE = (_STARTS & ~pl.col("start_ns").is_between(*TIMES)) | (_ENDS & ~pl.col("end_ns").is_between(*TIMES))


def possible(moment: int) -> bool:
    """Return whether an undamaged slot can have this time.

    Args:
        moment: the time, ns of CLOCK_MONOTONIC_RAW.
    """
    return TIMES[0] <= moment <= TIMES[1]


def sound(slots: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Remove the slots that have impossible times, and also return how many were removed.

    Spans and other single events are not checked here: `columns.slots.FORWARDS` checks them.

    Args:
        slots: rows of `columns.slots.SLOTS`.
    """
    damaged = int(slots.select(_IMPOSSIBLE.sum()).item())
    return (slots.filter(~_IMPOSSIBLE), damaged) if damaged else (slots, 0)


def sound_tasks(traced: Traced) -> tuple[Traced, int]:
    """Remove the records of a device that have impossible times, and also return how many were removed.

    Args:
        traced: the records, with times since the epoch.
    """
    found = 0
    for name in ("calls", "ran", "others"):
        rows = getattr(traced, name)
        # an impossible time plus the clock's offset exceeds Int64, so the sum became a negative number
        damaged = (rows["end_ns"] < rows["start_ns"]) | (rows["start_ns"] < 0)
        if damaged.any():
            found += int(damaged.sum())
            traced = replace(traced, **{name: rows.filter(~damaged)})
    return traced, found
