"""Build the tables for `ms-profiler sql`, from the tables of the analysis, whose columns have other names."""

from collections.abc import Iterator
from typing import Final

import polars as pl

from ms_profiler.analysis.catalogue import parts
from ms_profiler.analysis.metrics import (
    intervals,
    kernels as kernels_of,
    launched_steps,
    memory as memory_of,
    operands,
    sampling,
)
from ms_profiler.analysis.metrics.binding import Bound
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.metrics.scopes import Part
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.streams.device_time import LAUNCHED
from ms_profiler.store.format import Flag, StepSource, category_name

#: value of the column `bound` if the operator of a kernel is known, but not its module
OPERATOR: Final = "operator"
#: stream number that means all streams of a context
NO_STREAM: Final = 2**32 - 1


def spans(measures: Measures) -> pl.DataFrame:
    """Return the spans of a run that is in memory."""
    numbered = measures.spans.with_row_index("id")
    return _spans(measures, numbered.with_columns(measures.drawn.gather(numbered["parent"]).alias("parent")))


def span_parts(measures: Measures) -> Iterator[pl.DataFrame]:
    """Yield all spans of a run that is too large for memory. Each table has the spans that end in one time interval."""
    return (_spans(measures, part) for part in parts.spans(measures))


def _spans(measures: Measures, spans: pl.DataFrame) -> pl.DataFrame:
    return spans.with_columns(
        *_texts(name=(measures.recording.names, spans["name"])),
        _category(spans),
        _thread(measures, spans),
        *_times(),
        pl.col("self_ns").alias("self"),
        _step_at(measures, spans["start_ns"]),
        measures.recording.names.gather(operands.shapes(spans)).alias("shapes"),
        raised=pl.col("flags") & Flag.RAISED != 0,
        abandoned=pl.col("flags") & Flag.ABANDONED != 0,
    )


def kernels(measures: Measures) -> pl.DataFrame:
    """Return the kernels that are in memory."""
    kernels, stream = measures.stream.table, measures.stream
    row = kernels["kernel"]
    by_operator = (pl.lit(kernels["bound"]) == int(Bound.NOTHING)) & pl.lit(kernels["launch"]).is_not_null()
    bounds = pl.Series([bound.name.lower() for bound in sorted(Bound)])
    return kernels.with_columns(
        *_texts(
            name=(stream.names["full_name"], row),
            type=(stream.names["type"], row),
            core=(stream.names["core"], row),
            module=(stream.texts, kernels["module"]),
            shapes=(stream.texts, kernels["shapes"]),
            bound=(bounds, kernels["bound"]),
            part=(_PARTS, kernels["part"]),
        ),
        pl.col("lane").alias("stream"),
        pl.col("start_ns").alias("start"),
        (pl.col("start_ns") + pl.col("duration_ns")).alias("stop"),
        pl.col("duration_ns").alias("dur"),
        _wait(measures),
        pl.col("launch_ns").alias("launch"),
        measures.steps.table["number"].gather(kernels["step"]).alias("step"),
        _span_of(measures, kernels["launch"]),
    ).with_columns(pl.when(by_operator).then(pl.lit(OPERATOR)).otherwise("bound").alias("bound"))


def steps(measures: Measures) -> pl.DataFrame:
    """Return the steps."""
    steps = measures.steps.table
    sources = {int(source): source.name.lower() for source in StepSource}
    return steps.with_columns(
        pl.col("number").alias("step"),
        weight=sampling.weights(steps),
    ).with_columns(
        _thread(measures, steps),
        *_times(),
        pl.col("source").replace_strict(sources, return_dtype=pl.String),
    )


def stretches(measures: Measures) -> pl.DataFrame:
    """Return the intervals that make up the whole run, such as set-up and steps."""
    return measures.stretches.with_columns(*_times())


def phases(measures: Measures) -> pl.DataFrame:
    """Return the recorded steps, divided into intervals with one phase each."""
    return measures.pieces.with_columns(*_times(), _step_of(measures, measures.pieces["step"]))


def states(measures: Measures) -> pl.DataFrame:
    """Return the recorded steps, divided into intervals with one state each (computing, communicating, copying)."""
    states = measures.states
    copying = [] if "copying" in states.columns else [pl.lit(None, pl.Boolean).alias("copying")]
    return states.with_columns(*_times(), _step_of(measures, states["step"]), *copying)


def _wait(measures: Measures) -> pl.Expr:
    """Return the gap before each kernel in its stream, ns.

    Ascend's tools ignore streams in their column `wait_ns`. So this function computes the gaps in their results.
    """
    device = measures.recording.device
    if device is None or device.form in LAUNCHED:
        return pl.col("wait_ns").alias("wait")
    ends = pl.col("start_ns") + pl.col("duration_ns")
    gap = pl.col("start_ns") - ends.cum_max().shift(1).over("process", "lane")
    return gap.clip(lower_bound=0).fill_null(0).alias("wait")


def communication(measures: Measures) -> pl.DataFrame:
    """Return the exchanges of data with other ranks, such as all-reduces."""
    optional = {"ranks": pl.String, "size": pl.Int64, "dtype": pl.String}
    calls = measures.calls
    calls = calls.with_columns(pl.lit(None, kind).alias(name) for name, kind in optional.items() if name not in calls)
    return calls.with_columns(
        pl.col("operation").alias("name"),
        pl.coalesce("ranks", "group").alias("ranks"),
        pl.when(pl.col("bytes") > 0).then("bytes").alias("bytes"),
        *_times(),
        _step_of(measures, calls["step"]),
    )


def instants(measures: Measures) -> pl.DataFrame:
    """Return the instants, which are events without a duration."""
    instants = measures.recording.instants
    return instants.with_columns(
        *_texts(name=(measures.recording.names, instants["name"])),
        _category(instants),
        _thread(measures, instants),
        pl.col("time_ns").alias("time"),
        _step_at(measures, instants["time_ns"]),
    )


def counters(measures: Measures) -> pl.DataFrame:
    """Return the values of counters over time."""
    counters = measures.recording.counters
    return counters.with_columns(
        *_texts(name=(measures.recording.names, counters["name"])),
        _thread(measures, counters),
        pl.col("time_ns").alias("time"),
    )


def memory(measures: Measures) -> pl.DataFrame:
    """Return the memory that allocators hold."""
    device = measures.recording.device
    held = measures.memory.with_columns(memory_of.component(measures.recording))
    if device is not None:
        held = _own(measures, device.memory)
        if measures.chosen is not None:
            held = held.filter(intervals.locate(held["time_ns"], measures.steps.table).is_not_null())
    return held.with_columns(pl.col("time_ns").alias("time"))


def processes(measures: Measures) -> pl.DataFrame:
    """Return the processes that recorded."""
    return measures.recording.processes.with_columns(pl.col("first_ns").alias("start"), pl.col("last_ns").alias("stop"))


def threads(measures: Measures) -> pl.DataFrame:
    """Return the threads that recorded."""
    threads = measures.recording.threads
    return threads.with_columns(_thread(measures, threads), pl.col("thread_name").alias("name"))


def calls(measures: Measures) -> pl.DataFrame:
    """Return the calls of a device's driver on the host."""
    device = measures.recording.device
    calls = pl.DataFrame(schema=tables.DRIVER_CALLS) if device is None else device.calls
    # a negative number in a trace of PyTorch's profiler is not the number of a thread
    number = pl.col("thread").cast(pl.UInt64, strict=False)
    return calls.with_columns(*_times(), pl.when(number > 0).then(number).alias("thread"))


def copies(measures: Measures) -> pl.DataFrame:
    """Return the copies of a device's memory."""
    device = measures.recording.device
    copies = pl.DataFrame(schema=tables.COPIES) if device is None else device.copies
    return copies.with_columns(
        *_times(),
        pl.col("launch_ns").alias("launch"),
        _step_launched(measures, copies),
    )


def waits(measures: Measures) -> pl.DataFrame:
    """Return the waits of the host for a device, and of one stream for another."""
    device = measures.recording.device
    waits = pl.DataFrame(schema=tables.WAITS) if device is None else device.waits
    waits = _own(measures, waits)
    single = pl.when(pl.col("stream") != NO_STREAM).then("stream").alias("stream")
    return waits.with_columns(*_times(), single, _thread(measures, waits), _step_at(measures, waits["start_ns"]))


def reservations(measures: Measures) -> pl.DataFrame:
    """Return the allocations and releases of memory by a device's driver."""
    device = measures.recording.device
    reserved = pl.DataFrame(schema=tables.RESERVATIONS) if device is None else device.reservations
    reserved = _own(measures, reserved)
    return reserved.with_columns(
        pl.col("time_ns").alias("time"), _thread(measures, reserved), _step_at(measures, reserved["time_ns"])
    )


def _own(measures: Measures, table: pl.DataFrame) -> pl.DataFrame:
    """Add the column `process` to a table: the pid of the process that ran the steps."""
    return table.with_columns(pl.lit(measures.steps.process, pl.UInt32).alias("process"))


def span_sums(measures: Measures) -> pl.DataFrame:
    """Return sums over all spans by name and category, the largest first."""
    sums = measures.sums
    summed = sums.with_columns(
        *_texts(name=(measures.recording.names, sums["name"])),
        _category(sums),
        *(pl.col(f"{name}_ns").alias(name) for name in ("total", "self", "min", "max")),
    )
    return summed.sort("total", "name", "category", descending=[True, False, False])


def kernel_sums(measures: Measures) -> pl.DataFrame:
    """Return sums over all kernels by name, module and part of the step, the largest first."""
    stream = measures.stream
    sums = kernels_of.add_up([stream.sums], ["kernel", "module", "bound", "part"])
    summed = sums.with_columns(
        *_texts(
            name=(stream.names["full_name"], sums["kernel"]),
            type=(stream.names["type"], sums["kernel"]),
            module=(stream.texts, sums["module"]),
            part=(_PARTS, sums["part"]),
        ),
        *(pl.col(f"{name}_ns").alias(name) for name in ("total", "min", "max")),
        kernels_of.deviation(),
    )
    keys = ["total", "name", "module", "part"]
    return summed.sort(*keys, "bound", descending=[True, False, False, False, False])


def _span_of(measures: Measures, rows: pl.Series) -> pl.Series:
    """Return the `id` of the spans at `rows`. If not all spans of the run are in memory, all values are null."""
    known = rows if measures.recording.again is None else rows.clear(len(rows))
    return measures.drawn.gather(known).alias("span")


def _texts(**columns: tuple[pl.Series, pl.Series]) -> list[pl.Series]:
    """Return columns of texts. The argument `name=(texts, rows)` gives the column `name` with the texts at `rows`."""
    return [texts.gather(row).alias(name) for name, (texts, row) in columns.items()]


def _times() -> list[pl.Expr]:
    return [
        pl.col("start_ns").alias("start"),
        pl.col("end_ns").alias("stop"),
        (pl.col("end_ns") - pl.col("start_ns")).alias("dur"),
    ]


def _category(table: pl.DataFrame) -> pl.Series:
    return _CATEGORIES.gather(table["category"]).alias("category")


def _thread(measures: Measures, table: pl.DataFrame) -> pl.Series:
    """Return for each row the operating system's number of its thread; null where it is not known."""
    by = ["process", "thread"]
    known = measures.recording.threads.filter(pl.col("native_tid") > 0).select(*by, "native_tid")
    found = table.select(by).join(known, on=by, how="left", maintain_order="left")
    return found["native_tid"].alias("thread")


def _step_at(measures: Measures, times: pl.Series) -> pl.Series:
    steps = measures.steps.table
    return steps["number"].gather(intervals.locate(times, steps)).alias("step")


def _step_launched(measures: Measures, copies: pl.DataFrame) -> pl.Series:
    """Return the number of the step that launched each copy.

    Kernels and copies share streams, so the rule that assigns kernels to steps is applied to both together.
    """
    columns = ("stream", "start_ns", "launch_ns")
    device = measures.recording.device
    ran = copies if device is None else pl.concat([copies.select(columns), device.tasks.select(columns)])
    owners = launched_steps.owners(ran, measures.steps, ran["launch_ns"].null_count() < ran.height)
    return measures.steps.table["number"].gather(owners.head(copies.height)).alias("step")


def _step_of(measures: Measures, rows: pl.Series) -> pl.Series:
    return measures.steps.table["number"].gather(rows).alias("step")


_CATEGORIES: Final = pl.Series([category_name(number) for number in range(256)])
_PARTS: Final = pl.Series([part.name.lower() if part else None for part in Part], dtype=pl.String)
