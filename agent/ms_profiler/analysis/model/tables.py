"""The tables that every reader fills and every metric reads.

All times are nanoseconds since the epoch on the one time line of the run (see `model.clock`). They are Int64, because a
double has a resolution of 256 ns there. A row of `spans` refers to its thread by (`process`, `thread`) and to its text
by a number into `names`. So a span takes only a few machine words. The tables of an accelerator are in `device_tables`;
this module exports them as well.
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

#: before and after all times
EARLIEST, LATEST = -(2**63), 2**63 - 1

#: of so many fine-grained spans `Recording.starts` has the start of one
SAMPLED = 64

#: thread number of records with an unknown thread
UNKNOWN_THREAD = 2**32 - 1

#: one per process that recorded
PROCESSES = pl.Schema(
    {
        "process": pl.UInt32,  # pid
        "parent": pl.UInt32,
        "role": pl.String,  # "main", "fork", "spawn"
        "name": pl.String,
        "recorder": pl.String,  # "native" or "python"
        "recorder_reason": pl.String,
        "state": pl.String,  # see `analysis.liveness`
        "first_ns": pl.Int64,
        "last_ns": pl.Int64,  # of its last record
        "records": pl.UInt64,  # read
        "dropped": pl.UInt64,
        "dropped_limit": pl.UInt64,  # of these, for max_disk
    }
)

#: one per thread that recorded
THREADS = pl.Schema({"process": pl.UInt32, "thread": pl.UInt32, "native_tid": pl.UInt64, "thread_name": pl.String})

#: one per span, sorted by process, thread, start, longest first
SPANS = pl.Schema(
    {
        "process": pl.UInt32,
        "thread": pl.UInt32,
        "name": pl.UInt32,  # row of `names`
        "category": pl.UInt8,  # store.format.Category
        "flags": pl.UInt8,  # store.format.Flag
        "unfinished": pl.Boolean,  # was running when its process ended; end_ns is the last sign of life
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "arg": pl.UInt64,
        "depth": pl.UInt16,  # spans of this thread around it; operators are counted among themselves
        "parent": pl.UInt32,  # row of the innermost of them, null where there is none
    }
)

#: spans before they are sorted and nested
UNNESTED = pl.Schema({name: kind for name, kind in SPANS.items() if name not in ("depth", "parent")})

#: something that happened at one moment
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

#: a value at one moment
COUNTERS = pl.Schema(
    {"process": pl.UInt32, "thread": pl.UInt32, "name": pl.UInt32, "time_ns": pl.Int64, "value": pl.Float64}
)

#: the scheduler's figures for a thread, at each look of the recorder, by process, thread and time
LOOKS = pl.Schema(
    {
        "process": pl.UInt32,
        "thread": pl.UInt32,
        "time_ns": pl.Int64,
        "before_ns": pl.Int64,  # time of the thread's last event before this one
        "ran_ns": pl.Int64,  # its processor time so far
        "waited_ns": pl.Int64,  # for a processor, since the look before that tells it; null where this one does not
    }
)

#: numbers that the system counts of a process, its threads and its machine, by process, name, thread and time: one at
#: each time at which it has changed
METRICS = pl.Schema(
    {
        "process": pl.UInt32,
        "name": pl.UInt32,  # row of `names`: a name in `store.host_metrics`
        "native_tid": pl.UInt64,  # of a thread; 0 where there is no thread
        "thread_name": pl.UInt32,  # row of `names`
        "time_ns": pl.Int64,
        "value": pl.Float64,  # as the system counts it
    }
)

#: the same as people read them, in stretches of time, by process, name, thread and time
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

#: functions in the samples, by process and node: paths in a tree, whose outermost nodes are threads
FRAMES = pl.Schema(
    {
        "process": pl.UInt32,
        "node": pl.UInt32,
        "caller": pl.UInt32,  # node, 0 of a thread
        "name": pl.UInt32,  # row of `names`: name of a function or of a thread
        "file": pl.UInt32,  # likewise its path; of a thread 0
        "first_line": pl.UInt32,  # of the function
        "line": pl.UInt32,
        "native_tid": pl.UInt64,  # number of a thread; 0 where not known, and for functions
    }
)

#: samples of the threads' places at equal intervals, by process and time
SAMPLES = pl.Schema(
    {
        "process": pl.UInt32,
        "node": pl.UInt32,  # of `FRAMES`
        "start_ns": pl.Int64,  # first moment
        "end_ns": pl.Int64,  # last moment
        "count": pl.Int64,
        "late_us": pl.UInt32,  # how much later than due the latest look was
    }
)

#: traced calls of Python functions, and of functions in C by these; a generator has one for each time that it continued
CALLS = pl.Schema(
    {
        "process": pl.UInt32,
        "thread": pl.UInt32,
        "name": pl.UInt32,  # row of `names`
        "file": pl.UInt32,  # likewise its path; empty of a function in C
        "first_line": pl.UInt32,
        "flags": pl.UInt8,  # store.format.Flag
        "unfinished": pl.Boolean,  # was running when its process ended
        "resumed": pl.Boolean,  # it began before
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
    }
)

#: every step mark, by start; `metrics.steps` chooses the ones in use
STEPS = pl.Schema(
    {
        "process": pl.UInt32,
        "thread": pl.UInt32,
        "number": pl.Int64,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "source": pl.UInt8,  # store.format.StepSource
        "recorded": pl.Boolean,  # it has all records that the options request
        "content": pl.String,  # its records, see `ALL_OF_IT`
        "stretch": pl.UInt32,  # number of the stretch of steps of which one burst was sampled, see `metrics.sampling`
    }
)

#: the content of a step: all that the options ask for; without modules, operators and kernels, because of
#: `overhead_budget`; only its times, because the schedule left it out
ALL_OF_IT, COARSE, TIMES_ALONE = "all", "coarse", "times"

#: memory that the framework's allocator held after each allocation and release, by process and time; bytes
MEMORY = pl.Schema(
    {
        "process": pl.UInt32,
        "time_ns": pl.Int64,
        "allocated": pl.Int64,
        "reserved": pl.Int64,  # taken from the system
        "active": pl.Int64,
    }
)

#: one per block of memory that a framework's allocator on a processor took, by process and time; bytes
BLOCKS = pl.Schema(
    {
        "process": pl.UInt32,
        "thread": pl.UInt32,  # that took it
        "address": pl.Int64,
        "size": pl.Int64,
        "allocated_ns": pl.Int64,  # null where it was taken before the recording
        "released_ns": pl.Int64,  # null where it was in use at the end
        "allocation_allocated": pl.Int64,  # in use after the allocation
        "release_allocated": pl.Int64,  # in use after the release
    }
)

#: functions of Python in which a block was taken, the innermost first
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

#: one per kernel, by process, lane and start
KERNELS = pl.Schema(
    {
        "process": pl.UInt32,
        "lane": pl.UInt32,  # the framework's own number of the thread that ran it
        "kernel": pl.UInt32,  # row of `KERNEL_NAMES`
        "start_ns": pl.Int64,
        "duration_ns": pl.Int64,
        "wait_ns": pl.Int64,  # since the end of the kernel before it in its lane and window; 0 for the first
        "shapes": pl.UInt32,  # row of the texts, null where not known
        "step": pl.UInt32,  # row of the steps in use, null outside
        "host": pl.UInt32,  # row of the innermost span on the stepping thread that contains its start, null where none
        "launch": pl.UInt32,  # row of the operator or communication span that queued it, null where not known
        "module": pl.UInt32,  # row of the texts, null where not known
        "bound": pl.UInt8,  # metrics.binding.Bound: kind of its owner
        "part": pl.UInt8,  # metrics.scopes.Part: of a training step
        "launch_ns": pl.Int64,  # when the host asked a device for it, null where not known
    }
)

#: one per kernel name; kernels name their row
KERNEL_NAMES = pl.Schema(
    {
        "full_name": pl.String,  # as the framework shows it
        "type": pl.String,  # its primitive
        "core": pl.String,  # kind of core that ran it
        "scope": pl.String,  # the text before the last part, empty without one
        "module": pl.String,  # class in its scope, null where the scope names none
        "class": pl.String,  # of that module
    }
)


@dataclass(frozen=True)
class Window:
    """An interval whose kernels the framework wrote together.

    Attributes:
        process: pid.
        index: its number in the process.
        folder: its folder, whether or not it exists.
        start_ns: when it began.
        end_ns: when it ended, or the latest possible time of its end.
        ended: the process marked its end.
        drained: number of kernels that the process counted in it; None if it did not count.
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
        info: the run's record.
        has_info: the record was found and readable.
        clock: the clock that converts the times.
        counts: numbers of records that were read, and of those that could not be.
        names: texts by row number.
        looks: `LOOKS`.
        metrics: `METRICS`.
        host: `HOST`, made of these by `metrics.host_load`.
        frames: `FRAMES`.
        samples: `SAMPLES`.
        calls: `CALLS`.
        blocks: `BLOCKS`. places: `BLOCK_PLACES` of some of them.
        tensors: `MEMORY` of the same allocator.
        calls_left_out: traced calls that were left out because there were too many.
        fine: number of fine-grained spans (modules, operators) that were read.
        again: reads spans of an interval again (bounds in nanoseconds since the epoch), or only the fine-grained ones,
            in parts, as `UNNESTED`. None where `spans` holds everything; otherwise `spans` has no fine-grained ones
            until `driver.thinning` has chosen some.
        starts: sorted begins of some fine-grained spans, where `spans` does not hold all of them.
        sums: fine-grained spans by name, as of `metrics.operators.sum_up`, where `spans` does not hold all of them.
        sums_by_place: the same by `metrics.sampling.places`, too.
        detailed: numbers of the steps whose fine-grained spans `spans` holds; None for all.
        windows: the windows of the kernel stream, by process and start.
        device: the work of an accelerator; None if there was none, or it was not recorded.
        foreign: whether another tool recorded it.
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
    windows: list[Window] = field(default_factory=list)
    device: Device | None = None
    foreign: bool = False
