"""The tables of `ms-profiler sql` and `ms-profiler analyse --export parquet`, with the meaning of each column.

Times are whole nanoseconds since the epoch, durations are whole nanoseconds, sizes are bytes. Names of columns avoid
keywords of SQL, which would need quotes. For example, the end of a span is `stop`, not `end`.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.catalogue import device_frames, frames, owner_tables
from ms_profiler.analysis.catalogue.common import (
    COUNT,
    KERNEL_NAME,
    KERNEL_TYPE,
    LAUNCH,
    MAX,
    MIN,
    MODULE,
    ON_HOST,
    OWNED,
    PART,
    PROCESS,
    SPAN_CATEGORY,
    STEP,
    STREAM,
    THREAD,
    TIME,
    TIMES,
    TOTAL,
)
from ms_profiler.analysis.catalogue.table import Column, Table

_FLOPS: Final = "operations of matrix products, convolutions and attention of"

#: all tables that queries may name
TABLES: Final = (
    Table(
        "spans",
        "An interval on a thread of the host, for example a call. Spans of a thread nest.",
        (
            Column("id", pl.UInt32, "number of the span"),
            Column("name", pl.String, "name of the span"),
            SPAN_CATEGORY,
            PROCESS,
            THREAD,
            *TIMES,
            Column("self", pl.Int64, "`dur` without the spans directly inside, ns"),
            Column("step", pl.Int64, "number of the step in which it began, null outside of all steps"),
            Column("depth", pl.UInt16, "number of spans around it; for operators, number of operators around it"),
            Column("parent", pl.UInt32, "`id` of the innermost span around it, null where there is none"),
            Column("shapes", pl.String, "shapes of an operator's inputs, null where unknown"),
            Column("raised", pl.Boolean, "an exception ended it"),
            Column("abandoned", pl.Boolean, "its end was not recorded"),
            Column("unfinished", pl.Boolean, "it was open when its process ended; `stop` is the last record's time"),
        ),
        frames.spans,
        frames.span_parts,
    ),
    Table(
        "kernels",
        "A kernel that a device ran, or that the processor ran for MindSpore.",
        (
            KERNEL_NAME,
            KERNEL_TYPE,
            Column("core", pl.String, "kind of core that ran it"),
            PROCESS,
            Column("stream", pl.UInt32, "the device's stream, or the framework's number of the thread, that ran it"),
            *TIMES,
            Column("wait", pl.Int64, "gap after the previous kernel of the same stream, ns"),
            LAUNCH,
            STEP,
            MODULE,
            PART,
            Column(
                "bound",
                pl.String,
                "kind of its binding: module, order (a module, inferred), primitive, phase, operator, nothing",
            ),
            Column("shapes", pl.String, "shapes of the inputs, null where unknown"),
            Column("span", pl.UInt32, "`id` of the span that launched it, null where unknown"),
        ),
        frames.kernels,
    ),
    Table(
        "modules",
        "A module, or an optimizer, and the time of its kernels in all recorded steps, as in `module_steps`. Where the "
        "modules of kernels are unknown, it is the time of the stepping thread in all steady steps.",
        (
            *OWNED,
            Column(
                "inferred",
                pl.Int64,
                "part of `total` that was inferred from the order of a backward pass or from parameters, ns",
            ),
            Column("share", pl.Float64, "share of the time of the steady steps, or of the kernels"),
            *ON_HOST,
            Column(
                "calls",
                pl.UInt64,
                "number of calls in the steady steps; null where unknown, or where the module itself is never called",
            ),
            Column("parameters", pl.Int64, "number of elements of all parameters inside, null if unknown"),
            Column("parameter_bytes", pl.Int64, "size of these parameters, null if unknown"),
            Column("forward_flops", pl.Float64, f"{_FLOPS} forward passes in a step, null if unknown"),
            Column("backward_flops", pl.Float64, f"{_FLOPS} backward passes in a step, null if unknown"),
            Column("depth", pl.UInt16, "number of modules around it"),
            Column("leaf", pl.Boolean, "no module inside has any time"),
        ),
        owner_tables.modules,
    ),
    Table(
        "module_steps",
        "The time of a module or an optimizer in one step. Of a run too large for memory, only some steps have rows.",
        (STEP, *OWNED),
        owner_tables.module_steps,
    ),
    Table(
        "copies",
        "A copy to, from or inside the memory of a device, or a memory set.",
        (
            Column("name", pl.String, "kind and direction: HtoD is from the host to the device"),
            Column("sets", pl.Boolean, "it was a memory set and not a copy"),
            Column("bytes", pl.Int64, "bytes copied or set"),
            Column("device", pl.UInt32, "number of the GPU"),
            Column("stream", pl.UInt32, "number of the stream; with several GPUs, the GPU is in the upper 16 bits"),
            *TIMES,
            STEP,
            LAUNCH,
        ),
        frames.copies,
    ),
    Table(
        "waits",
        "A wait of the host for a device, or of a stream for another stream, as the device's tracing reported it.",
        (
            Column("name", pl.String, "kind: stream, context or event synchronize, or stream waits for event"),
            Column("stream", pl.UInt32, "the awaited stream, null for several"),
            THREAD,
            *TIMES,
            STEP,
        ),
        frames.waits,
    ),
    Table(
        "copy_sums",
        "All copies of one kind.",
        (
            Column("name", pl.String, "kind and direction"),
            COUNT,
            Column("bytes", pl.Int64, "sum of the bytes copied or set"),
            TOTAL,
            MIN,
            MAX,
            Column("bandwidth", pl.Float64, "`bytes` / `total`: bytes a nanosecond, which are GB a second"),
        ),
        device_frames.copy_sums,
    ),
    Table(
        "launches",
        "A kernel, copy or set on a device, with the call of the host that launched it.",
        (
            Column("name", pl.String, "name of the kernel, copy or set"),
            Column("kind", pl.String, "computation, communication or memory"),
            STREAM,
            *TIMES,
            Column("call", pl.String, "function of the device's runtime, null where not recorded"),
            Column("launch", pl.Int64, "begin of the call, ns since the epoch"),
            Column("called", pl.Int64, "duration of the call, ns"),
            Column("delay", pl.Int64, "from the end of the call to the begin on the device, ns, at least 0"),
            STEP,
        ),
        device_frames.launches,
    ),
    Table(
        "idle",
        "A gap between two pieces of work of a stream, with its cause as Holistic Trace Analysis defines it.",
        (
            STREAM,
            Column(
                "cause",
                pl.String,
                "why the next work began late: host wait (launched after the gap had begun), kernel wait (queued, "
                "and began within 30 us), other (queued for longer, or its launch is unknown)",
            ),
            *TIMES,
        ),
        device_frames.idle,
    ),
    Table(
        "queue",
        "The queue of a stream: launched work that has not begun. A row for each change.",
        (
            STREAM,
            TIME,
            Column("length", pl.Int64, "kernels, copies and sets in the queue; at 1,024, a GPU's launches wait"),
        ),
        device_frames.queue,
    ),
    Table(
        "device_kinds",
        "The time for which a device did a combination of kinds of work at the same time.",
        (Column("kinds", pl.String, "computation, communication, memory, or several of them"), TOTAL),
        device_frames.kinds,
    ),
    Table(
        "sequences",
        "The kernels that the calls of an operator launched, with the kernels of the operators inside. Of a run "
        "too large for memory, the table has the kernels of some steps only.",
        (
            Column("operator", pl.String, "the operator; each operator around a launch has a row"),
            Column("kernels", pl.String, "names of the kernels by start, one a line, at most 100"),
            Column("length", pl.Int64, "number of kernels"),
            Column("count", pl.UInt64, "number of calls"),
            TOTAL,
        ),
        device_frames.sequences,
    ),
    Table(
        "reservations",
        "An allocation or a release of memory by a GPU's driver, in recordings of ms-profiler.",
        (
            Column("name", pl.String, "kind of memory"),
            Column("allocates", pl.Boolean, "true for an allocation, false for a release"),
            Column("bytes", pl.Int64, "bytes allocated or released"),
            Column("device", pl.UInt32, "number of the GPU"),
            THREAD,
            TIME,
            STEP,
        ),
        frames.reservations,
    ),
    Table(
        "steps",
        "A training step.",
        (
            Column("step", pl.Int64, "number of the step"),
            PROCESS,
            THREAD,
            *TIMES,
            Column("recorded", pl.Boolean, "it has all records that the options request"),
            Column("content", pl.String, "`all`, `coarse` (no modules, operators, kernels, maybe phases), `times`"),
            Column("weight", pl.Float64, "steps that it stands for in sums over all steps, null where not recorded"),
            Column("source", pl.String, "the source that decided where the step ends"),
        ),
        frames.steps,
    ),
    Table(
        "stretches",
        "An interval of a process that has steps, with its part of the run and its phase. The intervals of the first "
        "process add up to the whole run.",
        (
            PROCESS,
            Column(
                "part",
                pl.String,
                "import, set-up, steps, evaluation, rollout, profiling, compile, checkpoint, network calls (outside of "
                "steps), between steps, after the last step, other, not recorded, other processes of the job",
            ),
            Column("phase", pl.String, "as in `phases`; `not recorded` where the step was not recorded"),
            *TIMES,
        ),
        frames.stretches,
    ),
    Table(
        "phases",
        "A piece of a recorded step in which the stepping thread was in one phase. All pieces make up the step.",
        (STEP, Column("phase", pl.String, "name of the phase"), *TIMES),
        frames.phases,
    ),
    Table(
        "states",
        "A piece of a recorded step in which the three Booleans do not change. All pieces make up the step.",
        (
            STEP,
            Column("computing", pl.Boolean, "something was computed"),
            Column("communicating", pl.Boolean, "data was exchanged with other ranks"),
            Column("copying", pl.Boolean, "a GPU copied or set memory; null where copies were not recorded"),
            *TIMES,
        ),
        frames.states,
    ),
    Table(
        "communication",
        "An exchange with other ranks in a step.",
        (
            Column("name", pl.String, "the operation"),
            Column("ranks", pl.String, "the ranks that took part, or the name of their group"),
            Column("size", pl.Int64, "number of ranks, null where unknown"),
            Column("number", pl.Int64, "number of the exchange within its group"),
            Column("bytes", pl.Int64, "bytes exchanged, null where unknown"),
            Column("dtype", pl.String, "type of the elements, null where unknown"),
            STEP,
            *TIMES,
        ),
        frames.communication,
    ),
    Table(
        "instants",
        "An event without a duration.",
        (Column("name", pl.String, "name of the event"), SPAN_CATEGORY, PROCESS, THREAD, TIME, STEP),
        frames.instants,
    ),
    Table(
        "counters",
        "A value at one moment.",
        (
            Column("name", pl.String, "name of the counter"),
            PROCESS,
            THREAD,
            TIME,
            Column("value", pl.Float64, "value"),
        ),
        frames.counters,
    ),
    Table(
        "memory",
        "The memory that an allocator holds, after each allocation and release.",
        (
            PROCESS,
            Column(
                "component", pl.String, "the allocator: MindSpore, PyTorch, CPU, GPU 0, or as another profiler names it"
            ),
            TIME,
            Column("allocated", pl.Int64, "bytes used by tensors"),
            Column("reserved", pl.Int64, "bytes reserved from the system"),
            Column("active", pl.Int64, "bytes in use or still needed by a stream"),
        ),
        frames.memory,
    ),
    Table(
        "processes",
        "A process that recorded.",
        (
            PROCESS,
            Column("parent", pl.UInt32, "pid of its parent process"),
            Column("role", pl.String, "main, fork or spawn"),
            Column("name", pl.String, "name of the process"),
            Column("recorder", pl.String, "native or python"),
            Column("state", pl.String, "how it ended"),
            Column("start", pl.Int64, "first record, ns since the epoch"),
            Column("stop", pl.Int64, "last record, ns since the epoch"),
            Column("records", pl.UInt64, "records that were read"),
            Column("dropped", pl.UInt64, "records lost for lack of space"),
        ),
        frames.processes,
    ),
    Table(
        "threads",
        "A thread that recorded.",
        (PROCESS, THREAD, Column("name", pl.String, "name of the thread")),
        frames.threads,
    ),
    Table(
        "calls",
        "A call of a device's driver, recorded by another profiler or by ms-profiler's tracing of a GPU.",
        (
            Column(
                "level",
                pl.String,
                "level of the driver; `overhead` is the time of the tracing itself and of loading code",
            ),
            Column("name", pl.String, "name of the function"),
            THREAD,
            *TIMES,
        ),
        frames.calls,
    ),
    Table(
        "span_sums",
        "All spans of one name and category.",
        (
            Column("name", pl.String, "name of the spans"),
            SPAN_CATEGORY,
            COUNT,
            TOTAL,
            Column("self", pl.Int64, "sum of the durations without the spans directly inside, ns"),
            MIN,
            MAX,
        ),
        frames.span_sums,
    ),
    Table(
        "kernel_sums",
        "All kernels of one name, module and part, also of a run too large for memory.",
        (
            *(KERNEL_NAME, KERNEL_TYPE, MODULE, PART, COUNT, TOTAL, MIN, MAX),
            Column("deviation", pl.Float64, "standard deviation of a sample (n - 1), ns, null for one"),
        ),
        frames.kernel_sums,
    ),
)


def named(name: str) -> Table | None:
    """Return the table with this name; None if no table has it."""
    return next((table for table in TABLES if table.name == name), None)


__all__ = ["TABLES", "Column", "Table", "named"]
