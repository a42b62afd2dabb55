"""Traces of PyTorch's profiler (Kineto), and others in the Chrome format that name their events as it does.

By category: `kernel`, `gpu_memcpy` and `gpu_memset` ran on the device, `cpu_op` and `user_annotation` on the host,
`cuda_runtime` and `cuda_driver` launched what has the same `correlation`. A kernel of NCCL exchanges data; what for,
its argument `Collective name` tells, or the call of the host that launched it (`nccl:all_to_all`, `c10d::recv_`): its
own name does not, NCCL receives and exchanges all to all by the same kernel. Where
nothing ran on a device, the outermost operators are what computed, on their threads. What has no category counts as
the host's.
"""

import os
from typing import Final

import polars as pl

from ms_profiler.analysis import tables
from ms_profiler.analysis.columns import COLUMNS
from ms_profiler.analysis.metrics.kernels import HOST_CPU
from ms_profiler.analysis.readers import assembly, trace_events
from ms_profiler.store.format import Category
from ms_profiler.store.reader import ReadCounts
from ms_profiler.store.run_info import RunInfo

_KERNELS: Final = ("kernel",)
_LAUNCHES: Final = ("cuda_runtime", "cuda_driver", "hip_runtime", "xpu_runtime", "privateuse1_runtime")
_GROUP: Final = "Process Group Name"
_COLLECTIVE: Final = "Collective name"
#: of spans, what is asked for
ARGUMENTS: Final = ("stream", "correlation", _GROUP, _COLLECTIVE)
#: what repeats others, or is no work
_PASSED: Final = ("python_function", "gpu_user_annotation", "Trace", "overhead", "ac2g", "fwdbwd")
_COPIES: Final = ("gpu_memcpy", "gpu_memset")
#: what exchanges data on a processor
_CALLS: Final = r"^(c10d::|gloo:|mpi:)"
#: what calls NCCL on the host, and what for
_COLLECTIVES: Final = r"^(?:c10d::|nccl:)_?(\w+?)_?(?:\s|$)"
_EXCHANGES: Final = r"(?i)^(nccl|rccl|oneccl)|ncclKernel|ncclDevKernel"


def of_trace(path: str, events: trace_events.Events, counts: ReadCounts) -> tables.Recording:
    """Return the recording of a trace.

    Args:
        path: of the file.
        events: in it, with `ARGUMENTS`.
        counts: what was read.

    Raises:
        StoreError: nothing in it can be read.
    """
    on_device = _tasks(events)
    tasks = _operators(events) if on_device.is_empty() else on_device
    info = _describe(events)
    info.framework["device"] = "CPU" if on_device.is_empty() else "GPU"
    device = tables.Device(tables.Form.KINETO, tasks, [os.path.basename(path)])
    host = _host(events)
    pids = events.spans.filter(pl.col("category") == "cpu_op")["pid"]
    process = int(pids[0]) if len(pids) and pids[0].isdecimal() else 0
    names = events.native_threads()
    return assembly.assemble(path, info, counts, assembly.Parts(host, tasks, names, process, device))


def _describe(events: trace_events.Events) -> RunInfo:
    info = RunInfo(framework={"name": "torch", "version": "", "device": ""})
    distributed = events.head.get("distributedInfo")
    found = distributed if isinstance(distributed, dict) else {}
    rank, size = found.get("rank"), found.get("world_size")
    info.rank_known = isinstance(rank, int) and rank >= 0
    info.rank = rank if isinstance(rank, int) and rank >= 0 else 0
    info.world_size = max(size if isinstance(size, int) else 1, info.rank + 1)
    info.local_rank = info.rank
    return info


def _host(events: trace_events.Events) -> pl.DataFrame:
    left_out = [*_KERNELS, *_COPIES, *_PASSED]
    spans = events.spans.filter(~pl.col("category").is_in(left_out))
    driver = spans["category"].is_in(list(_LAUNCHES))
    kinds = assembly.categorised(spans["name"])
    marks = spans["category"] == "user_annotation"
    kinds = kinds.zip_with(~(marks & (kinds == int(Category.OP))), pl.Series([int(Category.MARKER)], dtype=pl.UInt8))
    return assembly.host(spans, kinds, driver)


def _operators(events: trace_events.Events) -> pl.DataFrame:
    """Return the outermost operators as what computed."""
    highest = pl.col("end_ns").cum_max().shift(1).over("pid", "tid")
    # newer versions call what a backend exchanges an annotation
    called = (pl.col("category") == "user_annotation") & pl.col("name").str.contains(_CALLS)
    own = events.spans.filter((pl.col("category") == "cpu_op") | called)
    outermost = own.filter((pl.col("start_ns") >= highest).fill_null(True))
    exchange = pl.col("name").str.contains(_CALLS)
    return outermost.filter(pl.col("name").str.extract(assembly.STEP.pattern, 1).is_null()).select(
        pl.col("tid").cast(pl.UInt32, strict=False).fill_null(0).alias("stream"),
        "name",
        pl.lit(None, pl.String).alias("type"),
        pl.lit(HOST_CPU).alias("core"),
        pl.when(exchange).then(pl.lit("")).alias("group"),
        pl.lit(None, pl.String).alias("shapes"),
        "start_ns",
        "end_ns",
        exchange.alias("exchange"),
        pl.col("start_ns").alias("launch_ns"),
        pl.lit(None, pl.Int64).alias("driver_ns"),
    )


def _tasks(events: trace_events.Events) -> pl.DataFrame:
    """Return the kernels; copies compute nothing."""
    spans = events.spans.filter(pl.col("category").is_in(_KERNELS))
    stream = events.arguments(spans, "stream").fill_null(spans["tid"])
    launched = events.spans.filter(pl.col("category").is_in(_LAUNCHES))
    launches = (
        launched.select("tid", events.arguments(launched, "correlation"), pl.col("start_ns").alias("launch_ns"))
        .rename({"tid": "launch_tid"})
        .drop_nulls()
        .unique("correlation", keep="first")
    )
    tasks = spans.with_columns(events.arguments(spans, "correlation")).join(
        launches, on="correlation", how="left", maintain_order="left"
    )
    exchange = pl.col("name").str.contains(_EXCHANGES)
    group = events.arguments(spans, _GROUP).fill_null("")
    purpose = pl.coalesce(events.arguments(spans, _COLLECTIVE), _purposes(events, tasks))
    return tasks.select(
        stream.cast(pl.UInt32, strict=False).fill_null(0).alias("stream"),
        "name",
        pl.when(exchange).then(purpose).alias("type"),
        pl.lit("GPU").alias("core"),
        pl.when(exchange).then(pl.lit(group)).alias("group"),
        pl.lit(None, pl.String).alias("shapes"),
        "start_ns",
        "end_ns",
        exchange.alias("exchange"),
        "launch_ns",
        pl.col("launch_ns").alias("driver_ns"),
    ).sort("start_ns", "end_ns", maintain_order=True)


def _purposes(events: trace_events.Events, tasks: pl.DataFrame) -> pl.Series:
    """Return the call of a collective during which each task was launched, null where none was."""
    calls = events.spans.select(
        "tid", "start_ns", "end_ns", pl.col("name").str.extract(_COLLECTIVES).alias("purpose")
    ).drop_nulls("purpose")
    launches = tasks.select(
        pl.col("launch_tid").alias("tid"), pl.col("launch_ns").alias("start_ns"), pl.col("launch_ns").alias("end_ns")
    ).with_row_index("task")
    both = pl.concat([calls, launches.drop_nulls()], how="diagonal")
    nested = COLUMNS.nest(both["tid"].rank("dense").cast(pl.UInt64), both["start_ns"], both["end_ns"])
    around = both[nested["row"]].with_columns(both["purpose"].gather(nested["row"].gather(nested["parent"])))
    found = launches.join(around.drop_nulls("task"), on="task", how="left", maintain_order="left")
    return found["purpose"]
