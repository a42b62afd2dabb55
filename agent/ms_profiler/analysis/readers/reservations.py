"""Compute how much memory the driver of a device has allocated, from the records of allocations and releases."""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import steps
from ms_profiler.analysis.model import tables

#: component of the driver's memory in `tables.DEVICE_MEMORY`
COMPONENT: Final = "CUDA"
#: names of the kinds of memory on a device, as in the records of CUPTI
_ON_DEVICE: Final = ("device memory", "array memory", "managed memory")


def held(reservations: pl.DataFrame) -> pl.DataFrame:
    """Return the memory that the driver has allocated, after each allocation and release, as `DEVICE_MEMORY`.

    reserved(t) = (bytes allocated until t) - (bytes released until t). A negative value means that memory was allocated
    before the recording began. Then the smallest constant that makes all values >= 0 is added. So reserved(t) is a
    lower bound.

    Args:
        reservations: `tables.RESERVATIONS`.
    """
    on_device = reservations.filter(pl.col("name").is_in(_ON_DEVICE))
    given = pl.col("bytes").cast(pl.Int64) * pl.when("allocates").then(1).otherwise(-1)
    sums = on_device.with_columns(given.cum_sum().over("device").alias("reserved"))
    before = pl.col("reserved").min().over("device").clip(upper_bound=0)
    several = on_device["device"].n_unique() > 1
    component = pl.format("{} {}", pl.lit(COMPONENT), "device") if several else pl.lit(COMPONENT)
    return sums.select(
        component.alias("component"),
        "time_ns",
        pl.lit(None, pl.Int64).alias("allocated"),
        pl.col("reserved") - before,
        pl.lit(None, pl.Int64).alias("active"),
        pl.lit(None, pl.Int64).alias("stream"),
    ).cast(tables.DEVICE_MEMORY)


def count(recording: tables.Recording, memory: pl.DataFrame, process: int) -> None:
    """Add the driver's memory to the counters, so that timelines show it beside the thread that runs the steps.

    Args:
        recording: the recording, which is changed in place.
        memory: the driver's memory over time, from `held`.
        process: pid of the process with the steps.
    """
    if memory.is_empty():
        return
    components = memory["component"].unique(maintain_order=True)
    first = len(recording.names)
    rows = pl.int_range(first, first + len(components), dtype=pl.UInt32, eager=True)
    recording.names = recording.names.append(pl.Series([f"{name} memory" for name in components], dtype=pl.String))
    counted = memory.select(
        pl.lit(process, pl.UInt32).alias("process"),
        pl.lit(steps.marked(recording).thread, pl.UInt32).alias("thread"),
        pl.col("component").replace_strict(components, rows, return_dtype=pl.UInt32).alias("name"),
        "time_ns",
        pl.col("reserved").cast(pl.Float64).alias("value"),
    )
    recording.counters = pl.concat([recording.counters, counted]).sort("process", "name", "time_ns")
