"""Read the device memory that a framework's allocator held, from counters of `job.samplers.device_tensors`."""

from typing import Final

import polars as pl

from ms_profiler.analysis.model import tables
from ms_profiler.store.names import DEVICE_TENSORS

_NAME: Final = "^" + DEVICE_TENSORS.format("(?<component>.+)", "(?<what>allocated|highest|reserved)") + "$"


def attach(recording: tables.Recording) -> None:
    """Add the memory to that of the recorded device; without such a device only the counters show it.

    The allocator's peak rises between two samples. The later sample stands for the time of the peak.

    Args:
        recording: the recording, which is changed in place.
    """
    if recording.device is None:
        return
    names = recording.names.gather(recording.counters["name"]).str.extract_groups(_NAME).struct.unnest()
    told = pl.concat([recording.counters, names], how="horizontal").drop_nulls("what").sort("time_ns")
    if told.is_empty():
        return
    wide = told.with_columns(look=pl.col("what").eq("allocated").cum_sum().over("component"))
    looks = wide.pivot("what", index=["component", "look"], values="value", aggregate_function="first")
    times = wide.group_by("component", "look").agg(pl.col("time_ns").min())
    looks = looks.join(times, on=["component", "look"]).sort("component", "look")
    rises = looks.filter((pl.col("highest") > pl.col("highest").shift(1).over("component")).fill_null(True))
    rows = pl.concat(
        [
            rises.select("component", pl.col("time_ns") - 1, allocated="highest", reserved="reserved"),
            looks.select("component", "time_ns", "allocated", "reserved"),
        ]
    )
    nothing = pl.lit(None, pl.Int64)
    held = rows.select("component", "time_ns", "allocated", "reserved", active=nothing, stream=nothing)
    device = recording.device
    device.memory = pl.concat([device.memory, held.cast(tables.DEVICE_MEMORY)]).sort("time_ns", maintain_order=True)
