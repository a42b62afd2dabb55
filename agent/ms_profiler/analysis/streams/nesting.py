"""Nest spans: find depth and parent of each from the times."""

from typing import Final

import polars as pl

from ms_profiler.analysis.columns import COLUMNS
from ms_profiler.store.format import Category

_OPERATORS: Final = (int(Category.OP), int(Category.TRACED))
#: process numbers below it leave bits for the threads
_PLACED: Final = 2**31


def nest(spans: pl.DataFrame) -> pl.DataFrame:
    """Sort spans by thread and start, longest first, and add `depth` and `parent`, see `Columns.nest`. Operators nest
    only in each other, because operators that the framework's tracer reports for a thread may overlap with its other
    spans.

    Args:
        spans: `process`, `thread`, `category`, `start_ns`, `end_ns` and further columns, which stay.
    """
    found = COLUMNS.nest(lanes(spans), spans["start_ns"], spans["end_ns"])
    return spans[found["row"]].with_columns(found["depth"], found["parent"])


def in_order(spans: pl.DataFrame) -> pl.DataFrame:
    """Sort spans by process, thread and start, longest first, if they are not.

    Args:
        spans: `process`, `thread`, `start_ns`, `end_ns` and further columns, which stay.
    """
    row = COLUMNS.order(threads(spans), spans["start_ns"], spans["end_ns"])
    return spans if row.is_sorted() else spans[row]


def lanes(spans: pl.DataFrame) -> pl.Series:
    """Return the lane of each span as UInt64, `lane`: spans of one lane may nest.

    Args:
        spans: `process`, `thread`, `category`.
    """
    return threads(spans) * 2 + spans["category"].is_in(_OPERATORS)


def threads(spans: pl.DataFrame) -> pl.Series:
    """Return a number for the thread of each span, as UInt64, by process and thread.

    Args:
        spans: `process`, `thread`.
    """
    process = spans["process"]
    if int(str(process.max() or 0)) >= _PLACED:  # no process of Linux has such a number
        process = process.rank("dense") - 1
    return process.cast(pl.UInt64) * 2**32 + spans["thread"].cast(pl.UInt64)
