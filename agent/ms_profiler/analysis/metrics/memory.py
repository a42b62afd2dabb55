"""Tensor memory by step: where its peak is, and what is held when a step ends."""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.steps import Steps

#: whose memory it is that MindSpore's own recorder of kernels on a processor tells
COMPONENT: Final = "MindSpore"
#: whose it is that PyTorch's allocator on a processor tells
PROCESSOR: Final = "CPU"


def leading(held: pl.DataFrame) -> pl.DataFrame:
    """Return what the component held that allocated most, a processor's only where there is no other one.

    Args:
        held: `tables.DEVICE_MEMORY`.
    """
    most = (
        held.drop_nulls("allocated")
        .group_by("component")
        .agg(pl.col("allocated").max())
        .sort(pl.col("component") == PROCESSOR, -pl.col("allocated"), "component")
    )
    return held.drop_nulls("allocated").filter(pl.col("component").is_in(most["component"].head(1).implode()))


def by_step(memory: pl.DataFrame, used: Steps) -> pl.DataFrame:
    """Return for each recorded step the most that was allocated, and what was at its end, bytes.

    Args:
        memory: `tables.MEMORY`.
        used: the steps in use.

    Returns:
        `number`, `peak`, `end`, by number; steps in which nothing was given or taken are not there.
    """
    own = memory.filter(pl.col("process") == used.process)
    row = intervals.locate(own["time_ns"], used.recorded)
    return (
        own.select(used.recorded["number"].gather(row).alias("number"), "allocated")
        .drop_nulls("number")
        .group_by("number")
        .agg(pl.col("allocated").max().alias("peak"), pl.col("allocated").last().alias("end"))
        .sort("number")
    )
