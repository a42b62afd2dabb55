"""The tables of a run as a person asks for them: `ms-profiler sql`, and `analyse --export parquet`.

Times are whole nanoseconds since the epoch, durations whole nanoseconds, sizes bytes. Columns have names that need no
quotes in SQL, for which reason it is `stop` and not `end`.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.catalogue import frames
from ms_profiler.analysis.catalogue.base import Column, Table

_START: Final = Column("start", pl.Int64, "when it began, ns since the epoch")
_STOP: Final = Column("stop", pl.Int64, "when it ended, ns since the epoch")
_DUR: Final = Column("dur", pl.Int64, "how long it took, ns")
_TIMES: Final = (_START, _STOP, _DUR)
_TIME: Final = Column("time", pl.Int64, "when, ns since the epoch")
_STEP: Final = Column("step", pl.Int64, "number of the step, null outside of all")
_PROCESS: Final = Column("process", pl.UInt32, "pid")
_THREAD: Final = Column("thread", pl.UInt64, "the operating system's number of the thread, null where not known")
_COUNT: Final = Column("count", pl.UInt64, "how many there were, of the whole run")
_TOTAL: Final = Column("total", pl.Int64, "how long all of them took, ns")
_MIN: Final = Column("min", pl.Int64, "the shortest, ns")
_MAX: Final = Column("max", pl.Int64, "the longest, ns")
_SPAN_CATEGORY: Final = Column("category", pl.String, "what the time was spent on: op, module, data, forward, ...")
_KERNEL_NAME: Final = Column("name", pl.String, "as the framework shows it")
_KERNEL_TYPE: Final = Column("type", pl.String, "its primitive")
_MODULE: Final = Column("module", pl.String, "whose it was, null where not known")
_PART: Final = Column(
    "part", pl.String, "of a training step: forward, backward, recompute, optimizer; null where not known"
)

_LAUNCH: Final = Column("launch", pl.Int64, "when the host asked for it, ns since the epoch, null where not known")

#: every table there is
TABLES: Final = (
    Table(
        "spans",
        "Something that began and ended on a thread of the host; spans of a thread stand in each other.",
        (
            Column("id", pl.UInt32, "its number: of the row, where the run is held"),
            Column("name", pl.String, "what it was"),
            _SPAN_CATEGORY,
            _PROCESS,
            _THREAD,
            *_TIMES,
            Column("self", pl.Int64, "`dur` without the spans directly inside, ns"),
            Column("step", pl.Int64, "number of the step in which it began, null outside of all"),
            Column("depth", pl.UInt16, "spans around it; operators are counted among themselves"),
            Column("parent", pl.UInt32, "`id` of the innermost of them, null where there is none"),
            Column("shapes", pl.String, "of an operator's inputs, null where not known"),
            Column("raised", pl.Boolean, "it ended by an exception"),
            Column("abandoned", pl.Boolean, "its end was not seen"),
            Column("unfinished", pl.Boolean, "it was running when its process ended; `stop` is the last sign of life"),
        ),
        frames.spans,
        frames.span_parts,
    ),
    Table(
        "kernels",
        "Something that a device ran, or the processor for the framework.",
        (
            _KERNEL_NAME,
            _KERNEL_TYPE,
            Column("core", pl.String, "what ran it"),
            _PROCESS,
            Column(
                "stream", pl.UInt32, "the stream of the device, or the framework's number of the thread, that ran it"
            ),
            *_TIMES,
            Column("wait", pl.Int64, "since the end of the kernel before it in its stream, ns"),
            _STEP,
            _MODULE,
            _PART,
            Column(
                "bound",
                pl.String,
                "what it could be tied to: module, order (of the backward pass), primitive, phase, nothing",
            ),
            Column("shapes", pl.String, "of its inputs, null where not known"),
            Column("span", pl.UInt32, "`id` of the span that launched it, null where not known and in a long run"),
        ),
        frames.kernels,
    ),
    Table(
        "copies",
        "A copy to, from or inside the memory of a GPU, or the setting of some, as our own tracing recorded it.",
        (
            Column("name", pl.String, "what it did, and from where to where: HtoD is from the host to the device"),
            Column("sets", pl.Boolean, "it set memory, and copied nothing"),
            Column("bytes", pl.Int64, "copied or set"),
            Column("device", pl.UInt32, "number of the GPU"),
            Column("stream", pl.UInt32, "that it ran on; of several GPUs the number of the GPU is in the upper half"),
            *_TIMES,
            _STEP,
            _LAUNCH,
        ),
        frames.copies,
    ),
    Table(
        "waits",
        "A wait of the host for a GPU, or of a stream for another one, as our own tracing recorded it.",
        (
            Column("name", pl.String, "how: stream, context or event synchronize, stream waits for event"),
            Column("stream", pl.UInt32, "that was waited for, null where it is no single one"),
            _THREAD,
            *_TIMES,
            _STEP,
        ),
        frames.waits,
    ),
    Table(
        "reservations",
        "Memory that a GPU's driver gave or took back, as our own tracing recorded it.",
        (
            Column("name", pl.String, "kind of memory"),
            Column("allocates", pl.Boolean, "it was given, and not taken back"),
            Column("bytes", pl.Int64, "given or taken back"),
            Column("device", pl.UInt32, "number of the GPU"),
            _THREAD,
            _TIME,
            _STEP,
        ),
        frames.reservations,
    ),
    Table(
        "steps",
        "A training step.",
        (
            Column("step", pl.Int64, "its number"),
            _PROCESS,
            _THREAD,
            *_TIMES,
            Column("recorded", pl.Boolean, "its inside is known; the schedule left out the others"),
            Column("source", pl.String, "who says where it ends"),
        ),
        frames.steps,
    ),
    Table(
        "phases",
        "A piece of a recorded step in which the stepping thread was in one phase; the pieces of a step add up to it.",
        (_STEP, Column("phase", pl.String, "what it was spent on"), *_TIMES),
        frames.phases,
    ),
    Table(
        "states",
        "A piece of a recorded step in which the same was going on; the pieces of a step add up to it.",
        (
            _STEP,
            Column("computing", pl.Boolean, "something was computed"),
            Column("communicating", pl.Boolean, "data was exchanged with other ranks"),
            *_TIMES,
        ),
        frames.states,
    ),
    Table(
        "communication",
        "An exchange with other ranks in a step.",
        (
            Column("name", pl.String, "the operation"),
            Column("ranks", pl.String, "the group of ranks"),
            Column("number", pl.Int64, "of the exchange among those of its group"),
            Column("bytes", pl.Int64, "exchanged"),
            _STEP,
            *_TIMES,
        ),
        frames.communication,
    ),
    Table(
        "instants",
        "Something that happened at one moment.",
        (Column("name", pl.String, "what it was"), _SPAN_CATEGORY, _PROCESS, _THREAD, _TIME, _STEP),
        frames.instants,
    ),
    Table(
        "counters",
        "A value at one moment.",
        (
            Column("name", pl.String, "what was counted"),
            _PROCESS,
            _THREAD,
            _TIME,
            Column("value", pl.Float64, "how much"),
        ),
        frames.counters,
    ),
    Table(
        "memory",
        "What the framework's allocator held, each time that it gave or took.",
        (
            _PROCESS,
            _TIME,
            Column("allocated", pl.Int64, "given to tensors, bytes"),
            Column("reserved", pl.Int64, "taken from the system, bytes"),
            Column("active", pl.Int64, "in use, bytes"),
        ),
        frames.memory,
    ),
    Table(
        "processes",
        "A process that recorded.",
        (
            _PROCESS,
            Column("parent", pl.UInt32, "pid of the process that made it"),
            Column("role", pl.String, "main, fork or spawn"),
            Column("name", pl.String, "its name"),
            Column("recorder", pl.String, "native or python"),
            Column("state", pl.String, "how it ended"),
            Column("start", pl.Int64, "its first record, ns since the epoch"),
            Column("stop", pl.Int64, "its last record, ns since the epoch"),
            Column("records", pl.UInt64, "that were read"),
            Column("dropped", pl.UInt64, "records that there was no room for"),
        ),
        frames.processes,
    ),
    Table(
        "threads", "A thread that recorded.", (_PROCESS, _THREAD, Column("name", pl.String, "its name")), frames.threads
    ),
    Table(
        "calls",
        "A call of a device's driver, where another profiler recorded such, or our own tracing of a GPU.",
        (
            Column("level", pl.String, "of the driver; overhead is what tracing itself, and loading of code, took"),
            Column("name", pl.String, "of the function"),
            _THREAD,
            *_TIMES,
        ),
        frames.calls,
    ),
    Table(
        "span_sums",
        "All spans of one name and category.",
        (
            Column("name", pl.String, "what they were"),
            _SPAN_CATEGORY,
            _COUNT,
            _TOTAL,
            Column("self", pl.Int64, "without the spans directly inside, ns"),
            _MIN,
            _MAX,
        ),
        frames.span_sums,
    ),
    Table(
        "kernel_sums",
        "All kernels of one name, module and part, those included that `kernels` leaves out of a long run.",
        (_KERNEL_NAME, _KERNEL_TYPE, _MODULE, _PART, _COUNT, _TOTAL, _MIN, _MAX),
        frames.kernel_sums,
    ),
)


def named(name: str) -> Table | None:
    """Return the table of that name, if there is one."""
    return next((table for table in TABLES if table.name == name), None)


__all__ = ["TABLES", "Column", "Table", "named"]
