"""Read traces of PyTorch's profiler (Kineto), and other traces in the Chrome format with Kineto's event names.

`kineto_kinds` derives the kind of an event from its category. `kineto_tasks` reads the work of devices and the calls
that launched this work. If nothing ran on a device, the outermost operators of each thread take the place of kernels.
"""

import os
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics.kernels import HOST_CPU
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import assembly, device_memory, kineto_kinds as kinds, kineto_tasks, trace_events
from ms_profiler.store.format import Category
from ms_profiler.store.reader import ReadCounts
from ms_profiler.store.run_info import RunInfo

#: arguments of events that this module reads
ARGUMENTS: Final = kineto_tasks.ARGUMENTS
_UNKNOWN: Final = "none of its events has a known category"
#: pattern of the operators that exchange data between ranks on a CPU
_CALLS: Final = r"^(c10d::|gloo:|mpi:)"
#: largest rank, and largest number of ranks, to accept from a trace: PyTorch's ranks have 31 bits
_MOST_RANKS: Final = (1 << 31) - 1
#: pattern of the names of module calls in PyTorch's Python tracer; its group is the module
_MODULE: Final = r"^nn\.Module: (.+)$"
_ON_HOST: Final = (kinds.OPERATOR, kinds.ANNOTATION, kinds.RUNTIME, kinds.PYTHON, kinds.HOST)


def of_trace(path: str, events: trace_events.Events, counts: ReadCounts) -> tables.Recording:
    """Return the recording of a trace.

    Args:
        path: the path of the file.
        events: the events of the trace, with `ARGUMENTS`.
        counts: the numbers of events that were read and skipped.

    Raises:
        StoreError: nothing in the trace can be read.
    """
    spans = kinds.added(events)
    name = kinds.device(spans, events.labels)
    found = kineto_tasks.read(events, spans, name)
    info = _describe(events)
    unknown = kinds.unknown(spans)
    info.not_collected += unknown
    on_device = found.ran
    unread = found.missing or (_UNKNOWN if unknown and not on_device else "")
    if found.missing:
        why = "without it, bounds, critical path and advice would be wrong, so they are left out"
        info.not_collected.append({"what": f"work of the device: {found.missing}", "why": why})
    info.framework["device"] = name if on_device or found.missing else "" if unread else "CPU"
    device = (
        found.device
        if on_device or found.missing
        else tables.Device(tables.Form.KINETO, _operators(spans.filter(~pl.col("unfinished")), _group(events)), [])
    )
    device.unread, device.on_host = unread, not on_device and not unread
    device.files = [os.path.basename(path)]
    device.memory = device_memory.of_allocators(events, info.framework["device"])
    if device.memory.is_empty() and events.held.height:
        why = "this version of PyTorch reports the size of each allocation, but not the total"
        info.not_collected.append({"what": "memory of tensors", "why": why})
    pids = spans.filter(pl.col("kind") == kinds.OPERATOR)["pid"]
    process = int(pids[0]) if len(pids) and pids[0].isdecimal() else 0
    callers = found.callers if on_device else {}
    parts = assembly.Parts(_host(spans), device.tasks, events.native_threads(), process, device, callers)
    return assembly.assemble(path, info, counts, parts)


def _describe(events: trace_events.Events) -> RunInfo:
    info = RunInfo(framework={"name": "torch", "version": "", "device": ""})
    distributed = events.head.get("distributedInfo")
    found = distributed if isinstance(distributed, dict) else {}
    rank, size = _number(found.get("rank")), _number(found.get("world_size"))
    info.rank_known = rank is not None
    info.rank = rank or 0
    info.world_size = max(size or 1, info.rank + 1)
    info.local_rank = info.rank
    devices = events.head.get("deviceProperties")
    chips = [each.get("name") for each in devices if isinstance(each, dict)] if isinstance(devices, list) else []
    info.machine = {"device": str(chips[0])} if chips and chips[0] else {}
    return info


def _number(value: object) -> int | None:
    """Return a rank, or a number of ranks, from a trace; None if the value is impossible."""
    return value if type(value) is int and 0 <= value <= _MOST_RANKS else None


def _host(spans: pl.DataFrame) -> pl.DataFrame:
    own = spans.filter(pl.col("kind").is_in(_ON_HOST))
    other = own["kind"].is_in([kinds.RUNTIME, kinds.PYTHON])
    found = assembly.categorised(own["name"])
    marks = own["kind"] == kinds.ANNOTATION
    found = found.zip_with(~(marks & (found == int(Category.OP))), pl.Series([int(Category.MARKER)], dtype=pl.UInt8))
    module = own["name"].str.extract(_MODULE, 1).set(own["kind"] != kinds.PYTHON, None)
    host = assembly.host(own.with_columns(pl.coalesce(module, pl.col("name")).alias("name")), found, other)
    called = pl.when(module.is_not_null()).then(pl.lit(int(Category.MODULE), pl.UInt8)).otherwise("category")
    return host.with_columns(called.alias("category"))


def _group(events: trace_events.Events) -> str:
    """Return the name of the job's only group of ranks; empty if several groups may have exchanged data."""
    distributed = events.head.get("distributedInfo")
    groups = distributed.get("pg_config") if isinstance(distributed, dict) else None
    only = groups[0] if isinstance(groups, list) and len(groups) == 1 else None
    return str(only.get("pg_name", "")) if isinstance(only, dict) else ""


def _operators(spans: pl.DataFrame, group: str) -> pl.DataFrame:
    """Return the outermost operators of each thread as tasks, in place of the kernels of a device.

    Args:
        spans: the spans of the trace.
        group: the name of the group whose ranks exchange data; empty if unknown.
    """
    highest = pl.col("end_ns").cum_max().shift(1).over("pid", "tid")
    # newer versions of PyTorch report the exchanges of gloo and MPI as annotations
    called = (pl.col("kind") == kinds.ANNOTATION) & pl.col("name").str.contains(_CALLS)
    own = spans.filter((pl.col("kind") == kinds.OPERATOR) | called)
    own = own.filter(pl.col("name").str.extract(assembly.STEP.pattern, 1).is_null())
    outermost = own.filter((pl.col("start_ns") >= highest).fill_null(True))
    exchange = pl.col("name").str.contains(_CALLS)
    return outermost.select(
        pl.col("tid").cast(pl.UInt32, strict=False).fill_null(0).alias("stream"),
        "name",
        pl.lit(None, pl.String).alias("type"),
        pl.lit(HOST_CPU).alias("core"),
        pl.when(exchange).then(pl.lit(group)).alias("group"),
        pl.lit(None, pl.String).alias("shapes"),
        "start_ns",
        "end_ns",
        exchange.alias("exchange"),
        pl.col("start_ns").alias("launch_ns"),
        pl.lit(None, pl.Int64).alias("driver_ns"),
    )
