"""The tables of an accelerator's work, recorded by another tool or by ms-profiler's own tracing.

`tables` exports them, too. A task is a piece of work on a stream, usually a kernel. An exchange is a task in which
ranks send data to each other.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

import polars as pl

#: one row per task of an accelerator that computed or exchanged data, sorted by start, as another tool recorded it
TASKS = pl.Schema(
    {
        "stream": pl.UInt32,
        "name": pl.String,
        "type": pl.String,  # the type of the operator; null if unknown
        "core": pl.String,  # the core of the device that ran the task
        "group": pl.String,  # the group of ranks; null for a task that exchanges nothing
        "shapes": pl.String,  # the shapes of inputs; null if unknown
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "exchange": pl.Boolean,
        "launch_ns": pl.Int64,  # when the host launched the task; null if unknown
        "driver_ns": pl.Int64,  # when the launching call of the device's driver began; null if unknown
    }
)

#: The tasks that ms-profiler's own tracing recorded, sorted by start. The table has few columns, because there may be
#: tens of millions of rows. `Whole.runs` may use a smaller unsigned type for the columns of type UInt32.
RUNS = pl.Schema(
    {
        "stream": pl.UInt32,
        "kernel": pl.UInt32,  # row of `Whole.kernels`
        # the thread that launched the task; null if it is unknown or recorded nothing
        "thread": pl.UInt32,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "launch_ns": pl.Int64,  # null if unknown
        "exchange": pl.Boolean,
    }
)

#: Further columns of tasks that ms-profiler's own tracing recorded. Row n belongs to row n of the table of tasks.
LAUNCHES = pl.Schema(
    {
        # the thread that launched the task; null if it is unknown or recorded nothing
        "thread": pl.UInt32,
        "correlation": pl.UInt32,
        "device": pl.UInt32,
        "context": pl.UInt32,
        "graph": pl.UInt32,  # the CUDA graph that contains the task; 0 for none
        "amount": pl.UInt64,  # number of blocks of the kernel's grid
        "bytes": pl.Int64,  # the bytes that an exchange sent, null if unknown
    }
)

#: Further columns of exchanges that another tool recorded. Row n belongs to row n of `TASKS`.
EXCHANGED = pl.Schema(
    {
        "purpose": pl.String,  # the collective; null if unknown
        "ranks": pl.String,  # the ranks of the group
        "size": pl.Int64,  # number of ranks in the group
        "dtype": pl.String,  # the type of the sent elements
    }
)

#: one row per task that copied or set memory of a device, sorted by start
COPIES = pl.Schema(
    {
        "stream": pl.UInt32,
        "name": pl.String,
        "sets": pl.Boolean,
        "bytes": pl.UInt64,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "launch_ns": pl.Int64,  # null if unknown
        "thread": pl.UInt32,  # the thread that launched the task; null if unknown
        "correlation": pl.UInt32,
        "device": pl.UInt32,
        "context": pl.UInt32,
    }
)

#: one row per wait of the host or of a stream for a device's work, sorted by start
WAITS = pl.Schema(
    {
        "stream": pl.UInt32,  # the awaited stream; 2**32 - 1 for a wait that is not for a certain stream
        "name": pl.String,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "thread": pl.UInt32,  # the thread that called the wait; null if the thread recorded nothing, or is unknown
        "correlation": pl.UInt32,
        "context": pl.UInt32,
    }
)

#: one row per block of memory that the device's driver allocated or released, sorted by time
RESERVATIONS = pl.Schema(
    {
        "device": pl.UInt32,
        "name": pl.String,  # kind of memory
        "allocates": pl.Boolean,  # false for a release
        "bytes": pl.UInt64,
        "time_ns": pl.Int64,
        "launch_ns": pl.Int64,  # begin of the call; null if unknown
        "thread": pl.UInt32,  # the thread that made the call; null if unknown
    }
)

#: one row per marker that a device's interface reported on a stream, sorted by start
MARKS = pl.Schema(
    {"stream": pl.UInt32, "name": pl.String, "domain": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64}
)

#: one row per transfer, which is a part of an exchange, as another tool recorded it
TRANSFERS = pl.Schema(
    {
        "group": pl.String,  # the group of ranks
        "exchange_ns": pl.Int64,  # begin of the exchange that contains this transfer
        "plane": pl.Int64,  # number of the plane; an exchange runs on several planes at once
        "kind": pl.String,  # kind of work
        "transport": pl.String,
        "link": pl.String,
        "source": pl.Int64,  # rank in the group; null if unknown
        "target": pl.Int64,  # target rank in the group; null without a target
        "bytes": pl.Int64,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
    }
)

#: bytes of a device's memory that each component held, sorted by time; null if unknown
DEVICE_MEMORY = pl.Schema(
    {
        "component": pl.String,
        "time_ns": pl.Int64,
        "allocated": pl.Int64,
        "reserved": pl.Int64,
        "active": pl.Int64,
        "stream": pl.Int64,  # address of the stream that the memory was for
    }
)

#: One row per block of memory that an operator allocated on a device. Sizes are in bytes. If a block was not released,
#: its times of release are null.
ALLOCATIONS = pl.Schema(
    {
        "name": pl.String,
        "size": pl.Int64,
        "allocated_ns": pl.Int64,
        "released_ns": pl.Int64,
        "inactive_ns": pl.Int64,  # when the last use of the memory ended
        "duration_ns": pl.Int64,
        "active_ns": pl.Int64,
        "allocation_allocated": pl.Int64,  # bytes that the allocator held after the allocation
        "allocation_reserved": pl.Int64,
        "allocation_active": pl.Int64,
        "release_allocated": pl.Int64,
        "release_reserved": pl.Int64,
        "release_active": pl.Int64,
        "stream": pl.Int64,
    }
)

#: bytes that a module of the driver reserved, sorted by time
MODULE_MEMORY = pl.Schema({"module": pl.String, "time_ns": pl.Int64, "reserved": pl.Int64})

#: one row per call of a device's driver on the host, sorted by start
DRIVER_CALLS = pl.Schema(
    {
        "level": pl.String,
        "name": pl.String,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "thread": pl.Int64,  # the operating system's number of the thread
    }
)


#: Tables of CANN that the analysis copies into a result unchanged: msprof's name -> name in MindSpore's profiler. If
#: MindSpore's profiler lacks a table, the table keeps msprof's name.
COUNTER_TABLES = {
    "l2_cache": "l2_cache",
    "hbm": "hbm",
    "ddr": "ddr",
    "pcie": "pcie",
    "hccs": "hccs",
    "nic": "nic",
    "roce": "roce",
    "aicpu": "data_preprocess",
    "npu_mem": "npu_mem",
    "host_cpu_usage": "host_cpu_usage",
    "host_mem_usage": "host_mem_usage",
    "host_disk_usage": "host_disk_usage",
    "host_network_usage": "host_network_usage",
    "os_runtime_statistic": "os_runtime_statistic",
}


class Form(Enum):
    """The tool that recorded a device's work. The analysis computes the times of a step by this tool's formulas."""

    MINDSPORE = "mindspore"
    TORCH_NPU = "torch_npu"
    KINETO = "kineto"
    MS_PROFILER = "ms_profiler"
    CUPTI = "cupti"  # own tracing of a GPU, with the formulas for PyTorch's records of a GPU
    ACLPROF = "aclprof"  # own recording of an NPU, with torch_npu's formulas
    MSPTI = "mspti"  # own tracing of an NPU, with torch_npu's formulas: a step has the work that it launched


@dataclass(frozen=True)
class Totals:
    """Counts of all tasks of a device, such as kernels.

    Attributes:
        tasks: the number of tasks.
        exchanges: the number of tasks that exchange data.
        streams: the number of streams that ran tasks.
        launched: the number of tasks whose launch is known.
    """

    tasks: int
    exchanges: int
    streams: int
    launched: int

    @classmethod
    def of(cls, runs: pl.DataFrame) -> "Totals":
        """Count tasks. The table needs the columns `stream`, `launch_ns` and `exchange`."""
        launched = runs.height - runs["launch_ns"].null_count()
        return cls(runs.height, int(runs["exchange"].sum()), runs["stream"].n_unique(), launched)


@dataclass
class Whole:
    """All records of ms-profiler's own tracing of a device. `Device` may hold only the tasks of some steps.

    Attributes:
        runs: all tasks, with the columns of `RUNS`; no rows after `take_runs`.
        kernels: `name`, `type` and `core` of tasks.
        call_sums: the times of all calls of the driver, from `metrics.operators.by_level`.
        copied: the intervals in which memory was copied or set, sorted and without overlap.
        waits: the waits for the device on threads of gloo, with the columns of `WAITS`.
        details: a function that returns the tasks of some intervals, with their calls and copies. Its argument is a
            table of `start_ns` and `end_ns` without overlap, or None for the whole run. After the function was called,
            the attribute is None.
        totals: the counts of `runs`.
    """

    runs: pl.DataFrame
    kernels: pl.DataFrame
    call_sums: pl.DataFrame
    details: "Callable[[pl.DataFrame | None], Device] | None" = None
    copied: pl.DataFrame = field(
        default_factory=lambda: pl.DataFrame(schema={"start_ns": pl.Int64, "end_ns": pl.Int64})
    )
    waits: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=WAITS))
    totals: Totals = field(init=False)

    def __post_init__(self) -> None:
        self.totals = Totals.of(self.runs)

    def take_runs(self) -> pl.DataFrame:
        """Return `runs`, and drop them from the object to free memory: they may take hundreds of megabytes.

        Only one pass of the analysis needs them.
        """
        runs, self.runs = self.runs, self.runs.clear()
        return runs


@dataclass
class Device:
    """The tables of an accelerator, recorded by another tool or by ms-profiler's own tracing.

    Attributes:
        form: the tool that recorded the work.
        tasks: the tasks, with the columns of `TASKS`.
        files: the names of the files that were read.
        unmarked: whether the other tool's timeline lacks the lanes of the overlap analysis.
        calls: the calls of the device's driver, with the columns of `DRIVER_CALLS`.
        transfers: the transfers within exchanges, with the columns of `TRANSFERS`.
        memory: the memory that components held over time, with the columns of `DEVICE_MEMORY`.
        allocations: the blocks of memory that operators allocated, with the columns of `ALLOCATIONS`.
        modules: the memory that modules of the driver reserved, with the columns of `MODULE_MEMORY`.
        launches: `LAUNCHES`, one row for each row of `tasks`; None if the calls that launched the tasks are unknown.
        callers: the thread that launched each task, as in `LAUNCHES`. None if `launches` has the threads, or if they
            are unknown.
        copies: the tasks that copied or set memory, with the columns of `COPIES`.
        waits: the waits for the device's work, with the columns of `WAITS`.
        marks: the markers on streams, with the columns of `MARKS`.
        exchanged: `EXCHANGED`, one row for each row of `tasks`; None if the tool reported no such columns.
        details: further columns of the tool's table of kernels, unchanged, with `stream` and `start_ns` of each row;
            None if the table has no further columns.
        counters: CANN's tables of `COUNTER_TABLES` as text: readings of other parts of the device, and of the host.
        reservations: `RESERVATIONS` of the whole run; only for ms-profiler's own tracing.
        whole: the columns of all tasks; only for ms-profiler's own tracing.
        unread: the reason why the work of a device is missing although the device ran; empty if no work is missing.
        on_host: whether the tasks are operators of the host, because nothing ran on a device.
        within: `number`, `start_ns`, `end_ns` of the steps whose tasks, calls, copies and waits this object holds; None
            if it holds those of all steps.
    """

    form: Form
    tasks: pl.DataFrame
    files: list[str]
    unmarked: bool = False
    calls: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=DRIVER_CALLS))
    transfers: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=TRANSFERS))
    memory: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=DEVICE_MEMORY))
    allocations: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=ALLOCATIONS))
    modules: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=MODULE_MEMORY))
    launches: pl.DataFrame | None = None
    callers: pl.Series | None = None
    copies: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=COPIES))
    waits: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=WAITS))
    reservations: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=RESERVATIONS))
    marks: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=MARKS))
    exchanged: pl.DataFrame | None = None
    details: pl.DataFrame | None = None
    counters: dict[str, pl.DataFrame] = field(default_factory=dict)
    whole: Whole | None = None
    unread: str = ""
    on_host: bool = False
    within: pl.DataFrame | None = None

    def exchanging(self, kernels: pl.DataFrame, how: Literal["semi", "anti"]) -> pl.DataFrame:
        """Return the rows of a table of kernels that exchange data with other ranks, or the other rows.

        Args:
            kernels: the kernels of this device, with `lane` and `start_ns`.
            how: "semi" for the exchanges, "anti" for the other kernels.
        """
        key = ["lane", "start_ns"]
        exchanges = self.tasks.filter("exchange").select(pl.col("stream").alias("lane"), "start_ns").unique()
        return kernels.join(exchanges.cast({name: kernels.schema[name] for name in key}), on=key, how=how)

    @classmethod
    def none(cls) -> "Device":
        """Return a device without any record."""
        return cls(Form.KINETO, pl.DataFrame(schema=TASKS), [])

    @property
    def totals(self) -> Totals:
        """Return the counts of all tasks."""
        return Totals.of(self.tasks) if self.whole is None else self.whole.totals
