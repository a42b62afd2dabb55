"""The tables of a run as a person asks for them: `ms-profiler sql`, and `analyse --export parquet`.

Times are whole nanoseconds since the epoch, durations whole nanoseconds, sizes bytes. Columns have names that need no
quotes in SQL, for which reason it is `stop` and not `end`.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.catalogue import device_frames, frames, owner_tables
from ms_profiler.analysis.catalogue.table import Column, Table

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

_OWNED: Final = (
    Column("module", pl.String, "path from the outermost module on, with dots; an optimizer by its class"),
    Column("forward", pl.Int64, "forward passes of it and of all in it, ns"),
    Column("backward", pl.Int64, "backward passes, and what they compute again, ns"),
    Column("optimizer", pl.Int64, "steps of an optimizer, ns"),
    Column("total", pl.Int64, "all of these, ns"),
    Column("self", pl.Int64, "of it alone, without what is in it, ns"),
)

_LAUNCH: Final = Column("launch", pl.Int64, "when the host asked for it, ns since the epoch, null where not known")
_STREAM: Final = Column("stream", pl.UInt32, "of several devices the number of the device is in the upper half")

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
            _LAUNCH,
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
        "modules",
        "A module, or an optimizer, with its time in all steady steps: that of kernels where their modules are known, "
        "otherwise that of the stepping thread.",
        (
            *_OWNED,
            Column("inferred", pl.Int64, "of the total, what the order of a backward pass or parameters say, ns"),
            Column("share", pl.Float64, "of the time of these steps, or of all kernels"),
            Column("calls", pl.UInt64, "in these steps; null where it is not called itself, or that is not known"),
            Column("depth", pl.UInt16, "modules around it"),
            Column("leaf", pl.Boolean, "nothing in it has any time"),
        ),
        owner_tables.modules,
    ),
    Table(
        "module_steps",
        "The time of a module, or an optimizer, in one step; of a long run, in the steps whose inside is held.",
        (_STEP, *_OWNED),
        owner_tables.module_steps,
    ),
    Table(
        "copies",
        "A copy to, from or inside the memory of a device, or the setting of some.",
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
        "A wait of the host for a device, or of a stream for another one, as the interface of the device told it.",
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
        "copy_sums",
        "All copies of one kind.",
        (
            Column("name", pl.String, "what they did, and from where to where"),
            _COUNT,
            Column("bytes", pl.Int64, "copied or set by all of them"),
            _TOTAL,
            _MIN,
            _MAX,
            Column("bandwidth", pl.Float64, "`bytes` / `total`: bytes a nanosecond, which are GB a second"),
        ),
        device_frames.copy_sums,
    ),
    Table(
        "launches",
        "Something that a device did, and the call of the host that launched it, where that is known.",
        (
            Column("name", pl.String, "what ran"),
            Column("kind", pl.String, "computation, communication or memory"),
            _STREAM,
            *_TIMES,
            Column("call", pl.String, "of the device's runtime, null where not recorded"),
            Column("launch", pl.Int64, "when the call began, ns since the epoch"),
            Column("called", pl.Int64, "how long the call took, ns"),
            Column("delay", pl.Int64, "from the end of the call to the begin, 0 where it began before that, ns"),
            _STEP,
        ),
        device_frames.launches,
    ),
    Table(
        "idle",
        "A pause of a stream between two things that ran on it, by its cause as Holistic Trace Analysis tells it.",
        (
            _STREAM,
            Column(
                "cause",
                pl.String,
                "host wait (what ran next was launched after the pause had begun), kernel wait (it was queued, and "
                "began within 30 us), other (it was queued and waited longer, or its launch is not known)",
            ),
            *_TIMES,
        ),
        device_frames.idle,
    ),
    Table(
        "queue",
        "How much was launched on a stream and had not begun, each time that this changed.",
        (
            _STREAM,
            _TIME,
            Column("length", pl.Int64, "kernels, copies and sets in the queue; at 1,024 launching blocks on a GPU"),
        ),
        device_frames.queue,
    ),
    Table(
        "device_kinds",
        "How long a device did which kinds of work at once.",
        (Column("kinds", pl.String, "computation, communication, memory, or several of them"), _TOTAL),
        device_frames.kinds,
    ),
    Table(
        "sequences",
        "The kernels that an operator launches, those of the operators in it included, of the kernels that are held.",
        (
            Column("operator", pl.String, "what launched them: each operator around the launch has a row"),
            Column("kernels", pl.String, "their names in order of start, one a line; 100 of them at most"),
            Column("length", pl.Int64, "how many kernels"),
            Column("count", pl.UInt64, "how often"),
            _TOTAL,
        ),
        device_frames.sequences,
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
        "stretches",
        "Some time of a process that has steps, of one part and phase: all of the whole run for the first of them.",
        (
            _PROCESS,
            Column(
                "part",
                pl.String,
                "import, set-up, steps, evaluation, rollout, profiling, compile, checkpoint, network calls (outside of "
                "steps), between steps, after the last step, other, not recorded, other processes",
            ),
            Column("phase", pl.String, "of the moment, as in `phases`; not recorded where the schedule left it out"),
            *_TIMES,
        ),
        frames.stretches,
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
            Column("copying", pl.Boolean, "a GPU's memory was copied or set; null where that is not told"),
            *_TIMES,
        ),
        frames.states,
    ),
    Table(
        "communication",
        "An exchange with other ranks in a step.",
        (
            Column("name", pl.String, "the operation"),
            Column(
                "ranks", pl.String, "the ranks that took part, where they are told, or else the name of their group"
            ),
            Column("size", pl.Int64, "how many ranks these are, null where not told"),
            Column("number", pl.Int64, "of the exchange among those of its group"),
            Column("bytes", pl.Int64, "exchanged, null where not known"),
            Column("dtype", pl.String, "type of the elements, null where not told"),
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
        "What an allocator held, each time that it gave or took.",
        (
            _PROCESS,
            Column("component", pl.String, "whose it is: MindSpore, CPU, GPU 0, or what another profiler calls it"),
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
        (
            *(_KERNEL_NAME, _KERNEL_TYPE, _MODULE, _PART, _COUNT, _TOTAL, _MIN, _MAX),
            Column("deviation", pl.Float64, "standard deviation of a sample (n - 1), ns, null for one"),
        ),
        frames.kernel_sums,
    ),
)


def named(name: str) -> Table | None:
    """Return the table of that name, if there is one."""
    return next((table for table in TABLES if table.name == name), None)


__all__ = ["TABLES", "Column", "Table", "named"]
