"""Memory of a device, as another tool recorded it: from counters of a trace, or from the tables of a database.

A trace has what the whole device and this application hold (lane `NPU MEM`, kilobytes of 1024). A database has what
each component held, each time that it gave or took (MEMORY_RECORD, bytes), what operators allocated (OP_MEMORY), and
what CANN's modules reserved (NPU_MODULE_MEM).
"""

from collections.abc import Callable
from typing import Any, Final

import polars as pl

from ms_profiler.analysis import tables
from ms_profiler.analysis.readers.trace_events import Events

_LANE: Final = "NPU MEM"
_COUNTER: Final = "APP/Memory"
_APPLICATION: Final = "APP"

#: a table of a database by its columns, null where it lacks one
Rows = Callable[..., list[tuple[Any, ...]]]
#: a text by its number, null where it is not known
Text = Callable[[Any], str | None]


def of_trace(events: Events) -> pl.DataFrame:
    """Return `tables.DEVICE_MEMORY` of the counters of a trace.

    Args:
        events: of the trace.
    """
    lanes = [pid for pid, name in events.processes.items() if name == _LANE]
    found = events.counters.filter(pl.col("pid").is_in(lanes), pl.col("name") == _COUNTER, pl.col("value") >= 0)
    return found.select(
        pl.lit(_APPLICATION).alias("component"),
        "time_ns",
        pl.lit(None, pl.Int64).alias("allocated"),
        (pl.col("value") * 1024).round().cast(pl.Int64).alias("reserved"),
        pl.lit(None, pl.Int64).alias("active"),
        pl.lit(None, pl.Int64).alias("stream"),
    ).sort("time_ns", maintain_order=True)


def of_database(rows: Rows, text: Text) -> pl.DataFrame:
    """Return `tables.DEVICE_MEMORY` of a database.

    Args:
        rows: of one of its tables.
        text: by number.
    """
    held = [
        (_APPLICATION, time, None, (ddr or 0) + (hbm or 0), None, None)
        for kind, time, ddr, hbm in rows("NPU_MEM", "type", "timestampNs", "ddr", "hbm")
        if (text(kind) or "").upper() == _APPLICATION and _numbers(ddr, hbm)
    ]
    columns = "component", "timestamp", "totalAllocated", "totalReserved", "totalActive", "streamPtr"
    held += [(text(component), *values) for component, *values in rows("MEMORY_RECORD", *columns)]
    table = pl.DataFrame(held, schema=tables.DEVICE_MEMORY, orient="row", strict=False)
    return table.drop_nulls(["component", "time_ns"]).sort("time_ns", maintain_order=True)


def allocations(rows: Rows, text: Text) -> pl.DataFrame:
    """Return `tables.ALLOCATIONS` of a database.

    Args:
        rows: of one of its tables.
        text: by number.
    """
    columns = (
        *("size", "allocationTime", "releaseTime", "activeReleaseTime", "duration", "activeDuration"),
        *("allocationTotalAllocated", "allocationTotalReserved", "allocationTotalActive"),
        *("releaseTotalAllocated", "releaseTotalReserved", "releaseTotalActive", "streamPtr"),
    )
    found = [(text(name), *values) for name, *values in rows("OP_MEMORY", "name", *columns)]
    table = pl.DataFrame(found, schema=tables.ALLOCATIONS, orient="row", strict=False)
    return table.drop_nulls(["name", "size", "allocated_ns"])


def modules(rows: Rows) -> pl.DataFrame:
    """Return `tables.MODULE_MEMORY` of a database.

    Args:
        rows: of one of its tables.
    """
    names: dict[Any, Any] = dict(rows("ENUM_MODULE", "id", "name"))
    found = [
        (names.get(module), time, reserved)
        for module, time, reserved in rows("NPU_MODULE_MEM", "moduleId", "timestampNs", "totalReserved")
    ]
    return pl.DataFrame(found, schema=tables.MODULE_MEMORY, orient="row", strict=False).drop_nulls()


def _numbers(*values: Any) -> bool:
    return all(value is None or isinstance(value, (int, float)) for value in values)
