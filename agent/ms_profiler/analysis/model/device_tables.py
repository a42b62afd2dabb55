"""The tables of what an accelerator did, as another tool recorded it or our own tracing; see `tables`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

import polars as pl

#: one per task that computed or exchanged data on an accelerator, as another tool recorded it, by start
TASKS = pl.Schema(
    {
        "stream": pl.UInt32,
        "name": pl.String,
        "type": pl.String,  # of the operator; null where not known
        "core": pl.String,  # what ran it
        "group": pl.String,  # of ranks; null for what exchanges nothing
        "shapes": pl.String,  # of inputs; null where not known
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "exchange": pl.Boolean,
        "launch_ns": pl.Int64,  # when the host launched it; null where not known
        "driver_ns": pl.Int64,  # when the call of the device's driver began that did; null where not known
    }
)

#: what is needed of every task that our own tracing recorded, however many there are, by start
RUNS = pl.Schema(
    {
        "stream": pl.UInt32,
        "kernel": pl.UInt32,  # row of `Whole.kernels`
        "thread": pl.UInt32,  # that launched it; null where it recorded nothing, or is not known
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "launch_ns": pl.Int64,  # null where not known
        "exchange": pl.Boolean,
    }
)

#: what else is known of tasks that our own tracing recorded, row by row
LAUNCHES = pl.Schema(
    {
        "thread": pl.UInt32,  # that launched it; null where it recorded nothing, or is not known
        "correlation": pl.UInt32,
        "device": pl.UInt32,
        "context": pl.UInt32,
        "graph": pl.UInt32,  # of CUDA's, that it is a part of; 0 for none
        "amount": pl.UInt64,  # blocks of its grid
        "bytes": pl.Int64,  # that an exchange sent, null where not known
    }
)

#: what else is known of exchanges that another tool recorded, row by row of its tasks
EXCHANGED = pl.Schema(
    {
        "purpose": pl.String,  # the collective; null where not known
        "ranks": pl.String,  # of the group
        "size": pl.Int64,  # how many these are
        "dtype": pl.String,  # of what was sent
    }
)

#: one per copy or set of a device's memory, by start: they compute nothing
COPIES = pl.Schema(
    {
        "stream": pl.UInt32,
        "name": pl.String,
        "sets": pl.Boolean,
        "bytes": pl.UInt64,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "launch_ns": pl.Int64,  # null where not known
        "thread": pl.UInt32,  # likewise, that launched it
        "correlation": pl.UInt32,
        "device": pl.UInt32,
        "context": pl.UInt32,
    }
)

#: when the host, or a stream, waited for what a device did, by start
WAITS = pl.Schema(
    {
        "stream": pl.UInt32,  # that was waited for; 2**32 - 1 where it is no single one
        "name": pl.String,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "thread": pl.UInt32,  # that asked for it; null where it recorded nothing, or is not known
        "correlation": pl.UInt32,
        "context": pl.UInt32,
    }
)

#: one per time that memory was taken from a device's driver or given back, by time
RESERVATIONS = pl.Schema(
    {
        "device": pl.UInt32,
        "name": pl.String,  # kind of memory
        "allocates": pl.Boolean,  # or releases
        "bytes": pl.UInt64,
        "time_ns": pl.Int64,
        "launch_ns": pl.Int64,  # of the call; null where not known
        "thread": pl.UInt32,  # likewise, that made it
    }
)

#: one per marker that a device's interface told of a stream, by start
MARKS = pl.Schema(
    {"stream": pl.UInt32, "name": pl.String, "domain": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64}
)

#: one per part of an exchange, as another tool recorded it
TRANSFERS = pl.Schema(
    {
        "group": pl.String,  # of ranks
        "exchange_ns": pl.Int64,  # when the exchange began that it is a part of
        "plane": pl.Int64,  # of those that an exchange runs on beside each other
        "kind": pl.String,  # what it did
        "transport": pl.String,
        "link": pl.String,
        "source": pl.Int64,  # rank in the group; null where not known
        "target": pl.Int64,  # likewise; null where there is none
        "bytes": pl.Int64,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
    }
)

#: what a component held of a device's memory, by time; bytes, null where not known
DEVICE_MEMORY = pl.Schema(
    {
        "component": pl.String,
        "time_ns": pl.Int64,
        "allocated": pl.Int64,
        "reserved": pl.Int64,
        "active": pl.Int64,
        "stream": pl.Int64,  # address of the stream that it was for
    }
)

#: one per allocation of an operator on a device; bytes, null for what was not given back
ALLOCATIONS = pl.Schema(
    {
        "name": pl.String,
        "size": pl.Int64,
        "allocated_ns": pl.Int64,
        "released_ns": pl.Int64,
        "inactive_ns": pl.Int64,  # when nothing used it any more
        "duration_ns": pl.Int64,
        "active_ns": pl.Int64,
        "allocation_allocated": pl.Int64,  # of the allocator, afterwards
        "allocation_reserved": pl.Int64,
        "allocation_active": pl.Int64,
        "release_allocated": pl.Int64,
        "release_reserved": pl.Int64,
        "release_active": pl.Int64,
        "stream": pl.Int64,
    }
)

#: what a module of the driver reserved, by time; bytes
MODULE_MEMORY = pl.Schema({"module": pl.String, "time_ns": pl.Int64, "reserved": pl.Int64})

#: one per call of a device's driver on the host, by start
DRIVER_CALLS = pl.Schema(
    {
        "level": pl.String,
        "name": pl.String,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "thread": pl.Int64,  # of the operating system
    }
)


#: tables of CANN that stand in a result as they are: as msprof calls them -> as MindSpore's own profiler does, and as
#: msprof does where that leaves them out
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
    """Form of a result, which decides the formulas of a step."""

    MINDSPORE = "mindspore"
    TORCH_NPU = "torch_npu"
    KINETO = "kineto"
    MS_PROFILER = "ms_profiler"
    CUPTI = "cupti"  # our own tracing, with the formulas for what PyTorch records of a GPU
    ACLPROF = "aclprof"  # our own recording of an NPU, with torch_npu's formulas
    MSPTI = "mspti"  # our own tracing, with the formulas of torch_npu, which go by what a step launched


@dataclass
class Whole:
    """All that our own tracing recorded of a device, where `Device` may hold the tasks of some steps.

    Attributes:
        runs: `RUNS`.
        kernels: `name`, `type` and `core` of tasks.
        call_sums: of `metrics.operators.by_level`, over all calls.
        copied: when memory was copied or set, apart from each other and by time.
        details: returns the tasks of some times (`start_ns` and `end_ns`, apart from each other), or all of them, with
            what belongs to them; None where that has been done.
    """

    runs: pl.DataFrame
    kernels: pl.DataFrame
    call_sums: pl.DataFrame
    details: "Callable[[pl.DataFrame | None], Device] | None" = None
    copied: pl.DataFrame = field(
        default_factory=lambda: pl.DataFrame(schema={"start_ns": pl.Int64, "end_ns": pl.Int64})
    )


@dataclass
class Device:
    """The tables of an accelerator, recorded by another tool or by our own tracing.

    Attributes:
        form: who recorded it.
        tasks: `TASKS`.
        files: that were read, by name.
        unmarked: the timeline that was read has no lanes of the overlap analysis.
        calls: `DRIVER_CALLS`.
        transfers: `TRANSFERS`.
        memory: `DEVICE_MEMORY`.
        allocations: `ALLOCATIONS`.
        modules: `MODULE_MEMORY`.
        launches: `LAUNCHES`, of the same rows as `tasks`; None where the calls that launched them are not known.
        callers: the thread that launched each task, as in `LAUNCHES`, where nothing else is known of the launches.
        copies: `COPIES`.
        waits: `WAITS`.
        marks: `MARKS`.
        exchanged: `EXCHANGED`, of the same rows as `tasks`; None where nothing of the kind was told.
        details: what else a table of kernels says, as it says it, with `stream` and `start_ns` of each row; None where
            nothing was read but what the tables here hold.
        counters: tables of CANN with readings of other parts of the device and the host, as text, by `COUNTER_TABLES`.
        reservations: `RESERVATIONS`, of the whole run; of our own tracing alone.
        whole: what there is of all tasks; of our own tracing alone.
        unread: why it is not known what the device did, though a device ran; empty where it is known.
        on_host: nothing ran on a device: the tasks are operators of the host.
        within: `number`, `start_ns`, `end_ns` of the steps whose tasks, calls, copies and waits are here; None for all.
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

    @classmethod
    def none(cls) -> "Device":
        """Return a device of which nothing is known."""
        return cls(Form.KINETO, pl.DataFrame(schema=TASKS), [])

    @property
    def runs(self) -> pl.DataFrame:
        """Return every task: `stream`, `start_ns`, `end_ns`, `launch_ns` and `exchange`, at least."""
        return self.tasks if self.whole is None else self.whole.runs
