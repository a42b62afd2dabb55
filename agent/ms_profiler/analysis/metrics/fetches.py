"""Select the spans in which batches of a data loader were made."""

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category
from ms_profiler.store.names import FETCHED


def made(recording: tables.Recording) -> pl.DataFrame:
    """Return the spans in which batches were made, in all processes, with the columns of `tables.SPANS`.

    Args:
        recording: the run.
    """
    return recording.spans.filter(
        pl.col("category") == int(Category.DATA),
        pl.col("name").is_in((recording.names == FETCHED).arg_true().implode()),
    )


def together(recording: tables.Recording, fetched: pl.DataFrame) -> int:
    """Return the largest number of processes that made batches and lived at the same time; 0 without any.

    On a busy machine, a worker may have made all of its batches before the other one makes its first.

    Args:
        recording: the run.
        fetched: the spans in which these processes made batches.
    """
    if fetched.is_empty():
        return 0
    makers = recording.processes.filter(pl.col("process").is_in(fetched["process"].unique().implode()))
    alive = makers.select(start_ns="first_ns", end_ns="last_ns")
    return max(intervals.timeline({"alive": alive})["alive"], default=1)
