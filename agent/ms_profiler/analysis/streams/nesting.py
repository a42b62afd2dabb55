"""Nest spans: compute the depth and the parent of each span from its times."""

from typing import Final

import polars as pl

from ms_profiler.analysis.columns import COLUMNS
from ms_profiler.store.format import Category

_OPERATORS: Final = (int(Category.OP), int(Category.TRACED))
#: Process numbers must be below this limit, because the number of a lane has 31 bits for the process, 32 bits for the
#: thread, and one bit for the kind of lane.
_PLACED: Final = 2**31


def nest(spans: pl.DataFrame) -> pl.DataFrame:
    """Sort spans by thread and start, longest first, and add `depth` and `parent`, as `Columns.nest` computes them.

    Operators nest only in operators. They come from the framework's tracer, a source of their own. So other spans of
    the thread may overlap them without nesting.

    Args:
        spans: `process`, `thread`, `category`, `start_ns`, `end_ns` and further columns, which stay.
    """
    found = COLUMNS.nest(lanes(spans), spans["start_ns"], spans["end_ns"])
    return spans[found["row"]].with_columns(found["depth"], found["parent"])


def in_order(spans: pl.DataFrame) -> pl.DataFrame:
    """Sort spans by process, thread and start, longest first. Spans that are in this order are returned as they are.

    Args:
        spans: `process`, `thread`, `start_ns`, `end_ns` and further columns, which stay.
    """
    row = COLUMNS.order(threads(spans), spans["start_ns"], spans["end_ns"])
    return spans if row.is_sorted() else spans[row]


def lanes(spans: pl.DataFrame) -> pl.Series:
    """Return the number of each span's lane, UInt64. Spans nest only within a lane.

    Args:
        spans: `process`, `thread`, `category`.
    """
    return threads(spans) * 2 + spans["category"].is_in(_OPERATORS)


def threads(spans: pl.DataFrame) -> pl.Series:
    """Return one number for the process and the thread of each span, UInt64.

    Args:
        spans: `process`, `thread`.
    """
    process, thread = spans["process"], spans["thread"].cast(pl.UInt64)
    least, most = (int(str(bound or 0)) for bound in (process.min(), process.max()))
    if most >= _PLACED:  # Linux has no such process numbers
        process = process.rank("dense") - 1
    elif least == most:  # the usual case, in half the time
        return thread + most * 2**32
    return process.cast(pl.UInt64) * 2**32 + thread
