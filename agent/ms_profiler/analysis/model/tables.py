"""The tables that every reader fills and every metric reads.

All times are nanoseconds since the epoch on the time line of the run (`model.clock`). They are Int64, because a double
has a resolution of only 256 ns at today's times. The columns `process` and `thread` together identify a thread. A span
refers to its name by a row number of `Recording.names`. `device_tables` declares the tables of an accelerator; this
module exports them, too.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import polars as pl

from ms_profiler.analysis.model.clock import Clock
from ms_profiler.analysis.model.device_tables import (
    ALLOCATIONS as ALLOCATIONS,
    COPIES as COPIES,
    COUNTER_TABLES as COUNTER_TABLES,
    DEVICE_MEMORY as DEVICE_MEMORY,
    DRIVER_CALLS as DRIVER_CALLS,
    EXCHANGED as EXCHANGED,
    LAUNCHES as LAUNCHES,
    MARKS as MARKS,
    MODULE_MEMORY as MODULE_MEMORY,
    RESERVATIONS as RESERVATIONS,
    RUNS as RUNS,
    TASKS as TASKS,
    TRANSFERS as TRANSFERS,
    WAITS as WAITS,
    Device as Device,
    Form as Form,
    Whole as Whole,
)
from ms_profiler.store.reader import ReadCounts
from ms_profiler.store.run_info import RunInfo

#: a time before all others, and a time after all others
EARLIEST, LATEST = -(2**63), 2**63 - 1

#: to save memory, `Recording.starts` has only the start of every 64th fine-grained span
SAMPLED = 64

#: thread number in records of an unknown thread
UNKNOWN_THREAD = 2**32 - 1

#: one row per process that recorded
PROCESSES = pl.Schema(
    {
        "process": pl.UInt32,  # process id
        "parent": pl.UInt32,
        "role": pl.String,  # "main", "fork", "spawn"
        "name": pl.String,
        "recorder": pl.String,  # "native" or "python"
        "recorder_reason": pl.String,
        "state": pl.String,  # how the process ended, as `driver.liveness.state_of` tells it
        "first_ns": pl.Int64,
        "last_ns": pl.Int64,  # time of the process's last record
        "records": pl.UInt64,  # number of records that were read
        "dropped": pl.UInt64,
        "dropped_limit": pl.UInt64,  # number of dropped records that the limit `max_disk` caused
    }
)

#: one row per thread that recorded
THREADS = pl.Schema({"process": pl.UInt32, "thread": pl.UInt32, "native_tid": pl.UInt64, "thread_name": pl.String})

#: One row per span, sorted by process, thread, start and falling duration. Each thread has two lanes: one for
#: operators, and one for all other spans.
SPANS = pl.Schema(
    {
        "process": pl.UInt32,
        "thread": pl.UInt32,
        "name": pl.UInt32,  # row of `names`
        "category": pl.UInt8,  # store.format.Category
        "flags": pl.UInt8,  # store.format.Flag
        "unfinished": pl.Boolean,  # the span was open when its process ended; end_ns is the process's last sign of life
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "arg": pl.UInt64,
        "depth": pl.UInt16,  # number of spans around it in its lane
        "parent": pl.UInt32,  # row of the innermost span around it, null at depth 0
    }
)

#: columns of spans before the spans are sorted and nested
UNNESTED = pl.Schema({name: kind for name, kind in SPANS.items() if name not in ("depth", "parent")})

#: one row per event that has no duration
INSTANTS = pl.Schema(
    {
        "process": pl.UInt32,
        "thread": pl.UInt32,
        "name": pl.UInt32,
        "category": pl.UInt8,
        "time_ns": pl.Int64,
        "arg": pl.UInt64,
    }
)

#: one row per value of a counter at one moment
COUNTERS = pl.Schema(
    {"process": pl.UInt32, "thread": pl.UInt32, "name": pl.UInt32, "time_ns": pl.Int64, "value": pl.Float64}
)

#: the scheduler's figures for threads, one row per thread and sample of the recorder, sorted by process, thread, time
LOOKS = pl.Schema(
    {
        "process": pl.UInt32,
        "thread": pl.UInt32,
        "time_ns": pl.Int64,
        "before_ns": pl.Int64,  # time of the thread's last event before this sample
        "ran_ns": pl.Int64,  # processor time of the thread so far
        "waited_ns": pl.Int64,  # wait for a processor since the last sample that has this value; null in other samples
    }
)

#: Counters of the operating system for a process, its threads and its machine, one row per change of a counter. The
#: rows are sorted by process, name, thread and time.
METRICS = pl.Schema(
    {
        "process": pl.UInt32,
        "name": pl.UInt32,  # row of `names`: a name in `store.host_metrics`
        "native_tid": pl.UInt64,  # the system's number of a thread; 0 for counters of process and machine
        "thread_name": pl.UInt32,  # row of `names`
        "time_ns": pl.Int64,
        "value": pl.Float64,  # in the unit in which the system counts
    }
)

#: the counters of `METRICS` in readable units, as means over intervals, sorted by process, name, thread and time
HOST = pl.Schema(
    {
        "process": pl.UInt32,
        "name": pl.String,
        "native_tid": pl.UInt64,
        "thread_name": pl.String,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "value": pl.Float64,
        "unit": pl.String,
    }
)

#: The tree of the sampled stacks, sorted by process and node. A node is a function with its callers. The outermost
#: nodes are threads.
FRAMES = pl.Schema(
    {
        "process": pl.UInt32,
        "node": pl.UInt32,
        "caller": pl.UInt32,  # the node of the caller; 0 for a thread
        "name": pl.UInt32,  # row of `names`: name of a function or of a thread
        "file": pl.UInt32,  # row of `names`: path of the function's file; 0 for a thread
        "first_line": pl.UInt32,  # first line of the function
        "line": pl.UInt32,
        "native_tid": pl.UInt64,  # number of a thread; 0 if unknown, and for functions
    }
)

#: Samples of the threads' stacks, sorted by process and time. A row stands for successive samples with the same stack.
SAMPLES = pl.Schema(
    {
        "process": pl.UInt32,
        "node": pl.UInt32,  # of `FRAMES`
        "start_ns": pl.Int64,  # time of the first sample
        "end_ns": pl.Int64,  # time of the last sample
        "count": pl.Int64,
        "late_us": pl.UInt32,  # delay of the latest sample
    }
)

#: Traced calls of Python functions, and of C functions that Python functions called. A generator has one row for each
#: time that it is resumed.
CALLS = pl.Schema(
    {
        "process": pl.UInt32,
        "thread": pl.UInt32,
        "name": pl.UInt32,  # row of `names`
        "file": pl.UInt32,  # row of `names`: path of the function's file; empty for a function in C
        "first_line": pl.UInt32,
        "flags": pl.UInt8,  # store.format.Flag
        "unfinished": pl.Boolean,  # the call was open when its process ended
        "resumed": pl.Boolean,  # the row continues a generator that began in an earlier row
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
    }
)

#: all steps as the job marked them, sorted by start; `metrics.steps` chooses the ones in use
STEPS = pl.Schema(
    {
        "process": pl.UInt32,
        "thread": pl.UInt32,
        "number": pl.Int64,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "source": pl.UInt8,  # store.format.StepSource
        "recorded": pl.Boolean,  # the step has all records that the options request
        "content": pl.String,  # which records the step has: "all", "coarse" or "times"
        "stretch": pl.UInt32,  # number of the group of steps from which one burst of steps was sampled
    }
)

#: Which records a step has. "all": all records that the options request. "coarse": no modules, operators and kernels,
#: because of `overhead_budget`; if hooks were at rest, no phases either. "times": only the step's times, because the
#: schedule left the step out.
ALL_OF_IT, COARSE, TIMES_ALONE = "all", "coarse", "times"

#: bytes that the framework's allocator held after each allocation and release, sorted by process and time
MEMORY = pl.Schema(
    {
        "process": pl.UInt32,
        "time_ns": pl.Int64,
        "allocated": pl.Int64,
        "reserved": pl.Int64,  # memory that the allocator took from the system
        "active": pl.Int64,
    }
)

#: One row per block of host memory that a framework's allocator allocated, sorted by process and time. Sizes are bytes.
BLOCKS = pl.Schema(
    {
        "process": pl.UInt32,
        "thread": pl.UInt32,  # the thread that allocated the block
        "address": pl.Int64,
        "size": pl.Int64,
        "allocated_ns": pl.Int64,  # null for a block that was allocated before the recording
        "released_ns": pl.Int64,  # null for a block that was still in use at the end
        "allocation_allocated": pl.Int64,  # bytes in use after the allocation
        "release_allocated": pl.Int64,  # bytes in use after the release
    }
)

#: the Python functions that were running when a block was allocated, the innermost first
BLOCK_PLACES = pl.Schema(
    {
        "process": pl.UInt32,
        "address": pl.Int64,
        "allocated_ns": pl.Int64,
        "depth": pl.Int64,  # 0: the innermost
        "function": pl.UInt32,  # row of `names`
        "file": pl.UInt32,
        "line": pl.Int64,
    }
)

#: one row per kernel, sorted by process, lane and start
KERNELS = pl.Schema(
    {
        "process": pl.UInt32,
        "lane": pl.UInt32,  # the framework's own number of the thread that ran the kernel
        "kernel": pl.UInt32,  # row of `KERNEL_NAMES`
        "start_ns": pl.Int64,
        "duration_ns": pl.Int64,
        "wait_ns": pl.Int64,  # time since the previous kernel of the lane and window ended; 0 for the first kernel
        "shapes": pl.UInt32,  # row of `Stream.texts`, null if unknown
        "step": pl.UInt32,  # row of the steps in use, null outside of all steps
        "host": pl.UInt32,  # row of the stepping thread's innermost span around the start, null outside of all spans
        "launch": pl.UInt32,  # row of the operator or communication span that queued the kernel, null if unknown
        "module": pl.UInt32,  # row of `Stream.texts`, null if unknown
        "bound": pl.UInt8,  # metrics.binding.Bound: what is known to have run the kernel, such as a module or a phase
        "part": pl.UInt8,  # metrics.scopes.Part: the part of a training step that ran the kernel
        "launch_ns": pl.Int64,  # when the host launched the kernel on a device, null if unknown
    }
)

#: one row per kernel name; the column `kernel` of `KERNELS` is a row of this table
KERNEL_NAMES = pl.Schema(
    {
        "full_name": pl.String,  # as the framework shows it
        "type": pl.String,  # the primitive that it computes
        "core": pl.String,  # kind of core that ran it
        "scope": pl.String,  # the kernel's full name without its last part; empty if the name has one part only
        "module": pl.String,  # the module in the kernel's scope; null if the scope names no module
        "class": pl.String,  # the class of that module
    }
)


@dataclass(frozen=True)
class Window:
    """An interval in which the framework recorded the kernels of a process, and wrote them into one folder.

    Attributes:
        process: pid.
        index: number of the window in the process.
        folder: path of the folder, whether or not the folder exists.
        start_ns: begin of the window, in ns.
        end_ns: end of the window, in ns; if unknown, the latest possible time.
        ended: whether the process marked the end of the window.
        drained: number of kernels that the process counted in the window; None if the process did not count.
    """

    process: int
    index: int
    folder: str
    start_ns: int
    end_ns: int
    ended: bool
    drained: int | None


@dataclass
class Recording:
    """The content of one result directory.

    Attributes:
        directory: the result directory.
        info: the run's record, such as its options and versions.
        has_info: whether the run's record was found and could be read.
        clock: the clock that converts the times.
        counts: the number of records that could be read, and the number of records that could not.
        names: texts by row number.
        looks: samples of threads, with the columns of `LOOKS`.
        metrics: counters of the operating system, with the columns of `METRICS`.
        host: the same counters in units for people, as `HOST`; `metrics.host_load` computes them from `metrics`.
        frames: the tree of sampled stacks, with the columns of `FRAMES`.
        samples: samples of stacks, with the columns of `SAMPLES`.
        calls: traced calls of functions, with the columns of `CALLS`.
        blocks: blocks of host memory, with the columns of `BLOCKS`.
        places: the functions that allocated some rows of `blocks`, with the columns of `BLOCK_PLACES`.
        tensors: memory over time of the allocator of `blocks`, with the columns of `MEMORY`.
        calls_left_out: number of traced calls that were left out because there were too many.
        fine: number of fine-grained spans (modules, operators) that were read.
        again: `again(interval, fine)` reads the spans of an interval (ns since the epoch) again, in parts, as
            `UNNESTED`. If `fine` is true, it reads only fine-grained spans. None if `spans` has all spans. If it is not
            None, `spans` has no fine-grained spans until `driver.thinning` has chosen some.
        starts: the sorted begins of some fine-grained spans, if `spans` does not hold all fine-grained spans.
        sums: the times of all fine-grained spans by name, from `metrics.operators.sum_up`, if `spans` does not hold all
            fine-grained spans.
        sums_by_place: the times of all fine-grained spans by name and place (`metrics.sampling.places`).
        detailed: numbers of the steps whose fine-grained spans `spans` holds; None for all.
        whole_steps: whether it holds all fine-grained spans of these steps.
        windows: the windows of the kernel stream, by process and start.
        device: the work of an accelerator; None if there was none, or it was not recorded.
        foreign: whether another tool made the recording.
    """

    directory: str
    info: RunInfo
    has_info: bool
    clock: Clock
    counts: ReadCounts
    names: pl.Series
    processes: pl.DataFrame
    threads: pl.DataFrame
    spans: pl.DataFrame
    instants: pl.DataFrame
    counters: pl.DataFrame
    steps: pl.DataFrame
    looks: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=LOOKS))
    metrics: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=METRICS))
    host: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=HOST))
    frames: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=FRAMES))
    samples: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SAMPLES))
    calls: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=CALLS))
    calls_left_out: int = 0
    blocks: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=BLOCKS))
    places: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=BLOCK_PLACES))
    tensors: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=MEMORY))
    fine: int = 0
    again: Callable[[tuple[int, int], bool], Iterator[pl.DataFrame]] | None = None
    starts: pl.Series = field(default_factory=lambda: pl.Series(dtype=pl.Int64))
    sums: pl.DataFrame | None = None
    sums_by_place: pl.DataFrame | None = None
    detailed: list[int] | None = None
    whole_steps: bool = True
    windows: list[Window] = field(default_factory=list)
    device: Device | None = None
    foreign: bool = False

    @property
    def thinned(self) -> bool:
        """Return whether only some steps have all of their operators, or tasks of a device, in memory."""
        return self.sums is not None or (self.device is not None and self.device.within is not None)
