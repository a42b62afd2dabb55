"""Read samples of how long a thread has run, and has waited for a processor: records of the kind `PROCESSOR`."""

import polars as pl

from ms_profiler.analysis.model import tables
from ms_profiler.analysis.model.clock import Clock
from ms_profiler.store.format import NOT_READ

_NONE = pl.DataFrame(schema=tables.LOOKS)


def read(slots: pl.DataFrame, process: int, clock: Clock) -> pl.DataFrame:
    """Return `tables.LOOKS` from the slots of kind `Kind.PROCESSOR`.

    Args:
        slots: rows of `columns.slots.SLOTS`, of this kind.
        process: pid.
        clock: the clock of the run.
    """
    if slots.is_empty():
        return _NONE
    waited = pl.when(pl.col("id") != NOT_READ).then(pl.col("id").cast(pl.Int64) * 1000)
    return slots.select(
        pl.lit(process, pl.UInt32).alias("process"),
        "thread",
        clock.epoch(slots["start_ns"]).alias("time_ns"),
        clock.epoch(slots["end_ns"]).alias("before_ns"),
        pl.col("arg").cast(pl.Int64, strict=False).alias("ran_ns"),
        waited.alias("waited_ns"),
    ).select(tables.LOOKS.names())
