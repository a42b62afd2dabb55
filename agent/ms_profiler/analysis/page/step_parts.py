"""Divide the time of each step: the device computed, communicated, did both at once, copied, or was idle."""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics.measures import Measures

COMPUTING: Final = "computing"
OVERLAPPED: Final = "overlapped"
COMMUNICATION: Final = "communication"
_COPY: Final = "copy"
IDLE: Final = "idle"


def parts(measures: Measures) -> pl.DataFrame:
    """Return for each step its number (`step`) and the time of each part, ns; the parts add up to the step.

    Args:
        measures: the measures of the run.
    """
    states = measures.states
    copying = pl.col("copying").fill_null(False) if "copying" in states.columns else pl.lit(False)
    part = (
        pl.when(pl.col("computing") & pl.col("communicating"))
        .then(pl.lit(OVERLAPPED))
        .when("computing")
        .then(pl.lit(COMPUTING))
        .when("communicating")
        .then(pl.lit(COMMUNICATION))
        .when(copying)
        .then(pl.lit(_COPY))
        .otherwise(pl.lit(IDLE))
    )
    number = measures.steps.table["number"].gather(states["step"]).alias("number")
    known = states.with_columns(number, part=part, length=pl.col("end_ns") - pl.col("start_ns"))
    sums = known.drop_nulls("number").group_by("number", "part").agg(pl.col("length").sum())
    if sums.is_empty():
        return pl.DataFrame(schema={"step": pl.Int64})
    wide = sums.pivot("part", index="number", values="length").fill_null(0).sort("number")
    there = [name for name in (COMPUTING, OVERLAPPED, COMMUNICATION, _COPY, IDLE) if name in wide.columns]
    return wide.select(pl.col("number").alias("step"), *there)
