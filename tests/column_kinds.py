"""Both implementations of the work on columns, and functions that make slots as their input."""

import polars as pl
from ms_profiler.analysis.columns.native import NativeColumns
from ms_profiler.analysis.columns.plain import PlainColumns
from ms_profiler.analysis.columns.slots import Wanted
from ms_profiler.analysis.model.clock import Clock
from ms_profiler.store import format as fmt

BOTH = (NativeColumns(), PlainColumns())


def packed(*slots):
    """Return slots, given as tuples, as bytes in the form of a segment."""
    return b"".join(fmt.SLOT.pack(*slot) for slot in slots)


def wanted(names=(0, 7, 5), **changes):
    """Return a selection of slots: by default all of them, with times that are 1000 ns later."""
    known = {"between": (-(2**63), 2**63 - 1), "window": (0, 0), "last_ns": 900, "fine": False}
    knots = changes.pop("knots", ((0, 1000),))
    return Wanted(pl.Series(names, dtype=pl.UInt32), 1, Clock(knots, 0), **{**known, **changes})
