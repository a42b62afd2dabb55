"""Tensor memory by step: its peak, and the memory at the end of the step."""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables

#: reason why modules have no memory size except that of their parameters
NO_MEMORY: Final = "no allocator reports the module that uses its memory; the size of parameters is exact"
#: component name for the memory that MindSpore's recorder of CPU kernels reports
COMPONENT: Final = "MindSpore"
#: component name for the memory of PyTorch's CPU allocator in recordings of ms-profiler
PYTORCH: Final = "PyTorch"
#: component name for the memory of PyTorch's CPU allocator in traces of Kineto
PROCESSOR: Final = "CPU"


def component(recording: tables.Recording) -> pl.Expr:
    """Return the name of the host allocator that a recording covers."""
    return pl.lit(COMPONENT if recording.tensors.is_empty() else PYTORCH).alias("component")


def leading(held: pl.DataFrame) -> pl.DataFrame:
    """Return the memory of the component that allocated most; the CPU's component only if there is no other.

    Args:
        held: the memory of each component over time, with the columns of `tables.DEVICE_MEMORY`.
    """
    most = (
        held.drop_nulls("allocated")
        .group_by("component")
        .agg(pl.col("allocated").max())
        .sort(pl.col("component") == PROCESSOR, -pl.col("allocated"), "component")
    )
    return held.drop_nulls("allocated").filter(pl.col("component").is_in(most["component"].head(1).implode()))


def held(host: pl.DataFrame, recording: tables.Recording, steps: Steps) -> pl.DataFrame:
    """Return the memory of the allocator that held most at its peak, on the host or on the device.

    Args:
        host: the memory of the framework's allocator on the host, with the columns of `tables.MEMORY`.
        recording: the run.
        steps: the steps in use.

    Returns:
        `tables.MEMORY`, and the name of the allocator as `component`.
    """
    if recording.device is None or of_host(host, recording):
        return host.with_columns(component(recording))
    return leading(recording.device.memory).with_columns(pl.lit(steps.process, pl.UInt32).alias("process"))


def of_host(host: pl.DataFrame, recording: tables.Recording) -> bool:
    """Return whether the host's allocator, whose blocks may be known, held more at its peak than the device's.

    Args:
        host: the memory of the framework's allocator on the host, with the columns of `tables.MEMORY`.
        recording: the run.
    """
    if recording.device is None:
        return True
    held = (host, leading(recording.device.memory))
    most = [table.select(pl.col("allocated").max().fill_null(-1)).item() for table in held]
    return bool(most[0] > most[1])


def by_step(memory: pl.DataFrame, used: Steps) -> pl.DataFrame:
    """Return for each step the peak of allocated memory and the allocated memory at its end, in bytes.

    Steps that are not sampled count, too: the allocator's peaks and ends are recorded in them.

    Args:
        memory: the allocator's memory over time, with the columns of `tables.MEMORY`.
        used: the steps in use.

    Returns:
        `number` (of the step), `peak`, `end`, sorted by number. Steps without allocations and releases are left out,
        and steps with times alone.
    """
    own = memory.filter(pl.col("process") == used.process)
    known = used.table.filter(pl.col("content") != tables.TIMES_ALONE)
    row = intervals.locate(own["time_ns"], known)
    return (
        own.select(known["number"].gather(row).alias("number"), "allocated")
        .drop_nulls("number")
        .group_by("number")
        .agg(pl.col("allocated").max().alias("peak"), pl.col("allocated").last().alias("end"))
        .sort("number")
    )
