"""Read the training steps of a process from the records in which the process noted begin and end of each step."""

import polars as pl

from ms_profiler.analysis.model import tables
from ms_profiler.analysis.model.clock import Clock
from ms_profiler.store.format import Flag

_NONE = pl.DataFrame(schema=tables.STEPS)


def read(marks: pl.DataFrame, process: int, clock: Clock) -> pl.DataFrame:
    """Return `tables.STEPS` of one process, sorted by start.

    Args:
        marks: the records of the steps: rows of `columns.slots.SLOTS`, of kind STEP.
        process: pid.
        clock: the clock of the run, which converts the times of the records.
    """
    if marks.is_empty():
        return _NONE
    unrecorded, coarse = (pl.col("flags") & int(flag) > 0 for flag in (Flag.UNRECORDED, Flag.COARSE))
    content = pl.when(unrecorded).then(pl.lit(tables.TIMES_ALONE)).when(coarse).then(pl.lit(tables.COARSE))
    chosen = marks.sort("start_ns", maintain_order=True)
    return chosen.select(
        pl.lit(process, pl.UInt32).alias("process"),
        "thread",
        pl.col("arg").cast(pl.Int64, strict=False).alias("number"),
        clock.epoch(chosen["start_ns"]),
        clock.epoch(chosen["end_ns"]),
        pl.col("category").alias("source"),
        (~unrecorded & ~coarse).alias("recorded"),
        content.otherwise(pl.lit(tables.ALL_OF_IT)).alias("content"),
        (pl.col("flags") & int(Flag.STRETCH)).rle_id().alias("stretch"),
    )
