"""The tables that every reader fills and every metric reads.

All times are nanoseconds since the epoch on the one time line of the run (see `analysis.clock`), as Int64: a double
has steps of 256 ns there. A row of `spans` names its thread by (`process`, `thread`) and its text by a number
into `names`, so that ten million spans stay ten million times a few machine words.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import polars as pl

from ms_profiler.analysis.clock import Clock
from ms_profiler.store.reader import ReadCounts
from ms_profiler.store.run_info import RunInfo

#: thread number of records whose thread is not known
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
        "dropped_limit": pl.UInt64,  # of these, for a budget
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

#: every step mark, by start; `metrics.steps` chooses the ones in use
STEPS = pl.Schema(
    {
        "process": pl.UInt32,
        "thread": pl.UInt32,
        "number": pl.Int64,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "source": pl.UInt8,  # store.format.StepSource
        "recorded": pl.Boolean,  # false: the schedule left it out, only its times are known
    }
)


@dataclass
class Recording:
    """One result directory, read.

    Attributes:
        directory: the result directory.
        info: the run's record.
        has_info: the record was found and readable.
        clock: what the times were converted with.
        counts: what was read, and what could not be.
        names: texts by row number.
        fine: how many fine-grained spans (modules, operators) were read.
        again: reads all spans once more, batch by batch, as `UNNESTED`; None where `spans` holds everything. Where it
            is given, `spans` has no fine-grained ones until `analysis.thinning` has chosen some.
        sums: fine-grained spans by name, as of `metrics.operators.sum_up`, where `spans` does not hold all of them.
        detailed: numbers of the steps whose fine-grained spans `spans` holds; None for all.
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
    fine: int = 0
    again: Callable[[], Iterator[pl.DataFrame]] | None = None
    sums: pl.DataFrame | None = None
    detailed: list[int] | None = None
