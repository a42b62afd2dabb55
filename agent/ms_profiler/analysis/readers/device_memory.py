"""Read the memory of a device from another tool's result: from counters of a trace, or from tables of a database.

A trace has the memory of the whole device and of this application (lane `NPU MEM`, kilobytes of 1024 bytes).

The tables of a database:

- MEMORY_RECORD: the memory of each component after each change, in bytes
- OP_MEMORY: the allocations of operators
- NPU_MODULE_MEM: the reservations of CANN's modules
"""

from collections.abc import Callable
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import cells
from ms_profiler.analysis.readers.trace_events import Events
from ms_profiler.store.reader import ReadCounts

_LANE: Final = "NPU MEM"
_COUNTER: Final = "APP/Memory"
_APPLICATION: Final = "APP"
#: a counter above this value (in kilobytes; four exabytes) is damaged
_MOST_KB: Final = 2**52

#: kinds of devices by their numbers (c10/core/DeviceType.h of PyTorch)
_PROCESSOR: Final = 0
_TYPES: Final = {_PROCESSOR: "CPU", 1: "GPU", 6: "GPU", 12: "XPU", 13: "MPS", 15: "HPU", 19: "MTIA"}

#: a function that returns rows of a database's table, given its name and its columns; a missing column is null
Rows = Callable[..., list[tuple[Any, ...]]]
#: a function that returns the text with a given number in STRING_IDS; None for an unknown number
Text = Callable[[Any], str | None]


def of_trace(events: Events) -> pl.DataFrame:
    """Return the memory counters of a trace as `tables.DEVICE_MEMORY`.

    Args:
        events: the events of the trace.
    """
    lanes = [pid for pid, name in events.processes.items() if name == _LANE]
    found = events.counters.filter(
        pl.col("pid").is_in(lanes), pl.col("name") == _COUNTER, pl.col("value").is_between(0, _MOST_KB)
    )
    return found.select(
        pl.lit(_APPLICATION).alias("component"),
        "time_ns",
        pl.lit(None, pl.Int64).alias("allocated"),
        (pl.col("value") * 1024).round().cast(pl.Int64).alias("reserved"),
        pl.lit(None, pl.Int64).alias("active"),
        pl.lit(None, pl.Int64).alias("stream"),
    ).sort("time_ns", maintain_order=True)


def of_allocators(events: Events, device: str) -> pl.DataFrame:
    """Return the totals of PyTorch's allocators as `tables.DEVICE_MEMORY`; no rows if the trace has no totals.

    Args:
        events: the events of the trace.
        device: the kind of device, used as a name for types that are not in `_TYPES`.
    """
    known = events.held.drop_nulls(["Device Type", "Total Allocated"])
    number = pl.when(pl.col("Device Id") >= 0).then(pl.format(" {}", "Device Id")).otherwise(pl.lit(""))
    kind = pl.col("Device Type").replace_strict(_TYPES, default=None, return_dtype=pl.String)
    # the trace does not name the device of a type that is not in `_TYPES`; it is the device of a vendor's own back end
    named = pl.coalesce(kind, pl.lit(device if device != "CPU" else "DEVICE"))
    return known.select(
        (named + number).alias("component"),
        "time_ns",
        pl.col("Total Allocated").alias("allocated"),
        pl.when(pl.col("Device Type") != _PROCESSOR).then("Total Reserved").alias("reserved"),
        pl.lit(None, pl.Int64).alias("active"),
        pl.lit(None, pl.Int64).alias("stream"),
    ).sort("time_ns", maintain_order=True)


def of_database(rows: Rows, text: Text, counts: ReadCounts) -> pl.DataFrame:
    """Return the memory of components in a database as `tables.DEVICE_MEMORY`.

    Args:
        rows: a function that reads a table of the database.
        text: a function that returns the text with a number in STRING_IDS.
        counts: receives the number of rows that cannot be read.
    """
    held = [
        (_APPLICATION, time, None, (ddr or 0) + (hbm or 0), None, None)
        for kind, time, ddr, hbm in rows("NPU_MEM", "type", "timestampNs", "ddr", "hbm")
        if (text(kind) or "").upper() == _APPLICATION and _numbers(ddr, hbm)
    ]
    columns = "component", "timestamp", "totalAllocated", "totalReserved", "totalActive", "streamPtr"
    held += [(text(component), *values) for component, *values in rows("MEMORY_RECORD", *columns)]
    table = cells.typed(held, tables.DEVICE_MEMORY)
    return _complete(table, ["component", "time_ns"], counts).sort("time_ns", maintain_order=True)


def allocations(rows: Rows, text: Text, counts: ReadCounts) -> pl.DataFrame:
    """Return the allocations of operators in a database as `tables.ALLOCATIONS`.

    Args:
        rows: a function that reads a table of the database.
        text: a function that returns the text with a number in STRING_IDS.
        counts: receives the number of rows that cannot be read.
    """
    columns = (
        *("size", "allocationTime", "releaseTime", "activeReleaseTime", "duration", "activeDuration"),
        *("allocationTotalAllocated", "allocationTotalReserved", "allocationTotalActive"),
        *("releaseTotalAllocated", "releaseTotalReserved", "releaseTotalActive", "streamPtr"),
    )
    found = [(text(name), *values) for name, *values in rows("OP_MEMORY", "name", *columns)]
    return _complete(cells.typed(found, tables.ALLOCATIONS), ["name", "size", "allocated_ns"], counts)


def modules(rows: Rows, counts: ReadCounts) -> pl.DataFrame:
    """Return the reservations of CANN's modules in a database as `tables.MODULE_MEMORY`.

    Args:
        rows: a function that reads a table of the database.
        counts: receives the number of rows that cannot be read.
    """
    names: dict[Any, Any] = dict(rows("ENUM_MODULE", "id", "name"))
    found = [
        (names.get(module), time, reserved)
        for module, time, reserved in rows("NPU_MODULE_MEM", "moduleId", "timestampNs", "totalReserved")
    ]
    return _complete(cells.typed(found, tables.MODULE_MEMORY), tables.MODULE_MEMORY.names(), counts)


def _complete(table: pl.DataFrame, needed: list[str], counts: ReadCounts) -> pl.DataFrame:
    """Return the rows that have a value in each needed column, and count the others as damaged."""
    usable = table.drop_nulls(needed)
    counts.damaged_memory += table.height - usable.height
    return usable


def _numbers(*values: Any) -> bool:
    return all(value is None or isinstance(value, (int, float)) for value in values)
