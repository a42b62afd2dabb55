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


def together(alive: pl.DataFrame) -> int:
    """Return the largest number of processes that worked at the same time; 0 without any.

    Args:
        alive: `start_ns` of the first batch and `end_ns` of the last batch of each process.
    """
    return 0 if alive.is_empty() else max(intervals.timeline({"working": alive})["working"], default=1)
