"""Read how much device memory a framework's allocator held. `job.samplers.device_tensors` records it in counters."""

from typing import Final

import polars as pl

from ms_profiler.analysis.model import tables
from ms_profiler.store.names import DEVICE_TENSORS

_WHAT: Final = ("allocated", "highest", "reserved")
_NAME: Final = "^" + DEVICE_TENSORS.format("(?<component>.+)", f"(?<what>{'|'.join(_WHAT)})") + "$"
#: largest plausible number of bytes; a larger value is damage
_MOST: Final = 2**62


def attach(recording: tables.Recording) -> None:
    """Add the allocator's memory to the recorded device. Without a recorded device, do nothing.

    A sample reports the highest memory so far, but not when it was reached. So a new peak gets a row of its own, 1 ns
    before the sample that reported it.

    Args:
        recording: the recording, which is changed in place.
    """
    if recording.device is None:
        return
    names = recording.names.gather(recording.counters["name"]).str.extract_groups(_NAME).struct.unnest()
    counted = pl.concat([recording.counters, names], how="horizontal").drop_nulls("what").sort("time_ns")
    counted = counted.filter(pl.col("value").is_between(0, _MOST))
    if counted.is_empty():
        return
    wide = counted.with_columns(look=pl.col("what").eq("allocated").cum_sum().over("component"))
    looks = wide.pivot("what", index=["component", "look"], values="value", aggregate_function="first")
    looks = looks.with_columns(pl.lit(None, pl.Float64).alias(name) for name in _WHAT if name not in looks.columns)
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
