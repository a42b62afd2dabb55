"""kernel_details.csv: one row a kernel, by lane and start.

Columns and order are those of MindSpore's public profiler documents without a profiler level. `Input Shapes` follows
where any is known. Where modules were inferred from the order of a backward pass, `Module` follows, and how each is
known: `exact` or `by order`. `Step ID` is always there, because readers that are asked for one step look for it, and
empty outside the steps. The lane, a worker of the framework, stands as `Stream ID`: `Wait Time` is the gap in it.
`Block Num` has no meaning on a processor and is 0, as on a device for what has no blocks: readers want a number.
Where operators compute as they are called, the innermost of them are the rows, their thread is the lane, and the
`Module` is the one around each; the others do little but call these.
"""

import os
from typing import BinaryIO, Final

import polars as pl

from ms_profiler.analysis.measures import Measures
from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.binding import Bound
from ms_profiler.analysis.metrics.kernels import HOST_CPU
from ms_profiler.analysis.writers import numbers
from ms_profiler.store import layout

#: rows written at once
_CHUNK: Final = 100_000
#: by `Bound`
_HOW: Final = pl.Series(
    [{Bound.MODULE: "exact", Bound.ORDER: "by order"}.get(bound, numbers.NOTHING) for bound in sorted(Bound)]
)


def path(measures: Measures) -> str:
    """Return where it goes."""
    return os.path.join(layout.OUTPUT, layout.KERNEL_DETAILS)


def applies(measures: Measures) -> bool:
    """Tell whether kernels were recorded, and of the device that computes."""
    if measures.stream.decides:
        return not measures.stream.table.is_empty()
    return not measures.host_operators.is_empty()


def write(measures: Measures, stream: BinaryIO, *, pretty: bool) -> None:
    """Write the table."""
    if not measures.stream.decides:
        _write_operators(measures, stream)
        return
    kernels = measures.stream
    known = kernels.table["shapes"].is_not_null().any()
    ordered = kernels.table["bound"].eq(int(Bound.ORDER)).any()
    header = True
    for rows in kernels.table.iter_slices(_CHUNK):
        columns = _columns(
            measures.steps.table["number"].gather(rows["step"]),
            rows["lane"],
            kernels.names["full_name"].gather(rows["kernel"]),
            kernels.names["type"].gather(rows["kernel"]),
            kernels.names["core"].gather(rows["kernel"]),
        )
        if known:
            quoted = pl.concat_str(pl.lit('"'), kernels.texts.gather(rows["shapes"]), pl.lit('"'))
            columns.append(quoted.fill_null(numbers.NOTHING).alias("Input Shapes"))
        if ordered:
            columns.append(kernels.texts.gather(rows["module"]).fill_null(numbers.NOTHING).alias("Module"))
            columns.append(_HOW.gather(rows["bound"]).alias("Module Binding"))
        rows.select(columns).write_csv(stream, include_header=header)
        header = False


def _write_operators(measures: Measures, stream: BinaryIO) -> None:
    steps, names = measures.steps.table, measures.recording.names
    innermost = measures.host_operators.filter("inner")
    header = True
    for rows in innermost.iter_slices(_CHUNK):
        own = rows["process"] == measures.steps.process
        times = rows["start_ns"].zip_with(own, pl.Series([None], dtype=pl.Int64))
        name = names.gather(rows["name"])
        cores = pl.repeat(HOST_CPU, rows.height, dtype=pl.String, eager=True)
        columns = _columns(steps["number"].gather(intervals.locate(times, steps)), rows["thread"], name, name, cores)
        columns.append(names.gather(rows["module"]).fill_null(numbers.NOTHING).alias("Module"))
        rows.select(columns).write_csv(stream, include_header=header)
        header = False


def _columns(
    step: pl.Series, lane: pl.Series, name: pl.Series, kind: pl.Series, core: pl.Series
) -> list[pl.Expr | pl.Series]:
    """Return the columns that every row has, the others of which its table holds."""
    return [
        step.alias("Step ID"),
        pl.lit(numbers.NOTHING).alias("Model ID"),
        pl.lit(numbers.NOTHING).alias("Task ID"),
        lane.alias("Stream ID"),
        name.alias("Name"),
        kind.alias("Type"),
        pl.lit(numbers.NOTHING).alias("OP State"),
        core.alias("Accelerator Core"),
        # a tab keeps spreadsheets from rounding 19 digits
        pl.concat_str(numbers.microseconds(pl.col("start_ns")), pl.lit("\t")).alias("Start Time(us)"),
        numbers.microseconds(pl.col("duration_ns")).alias("Duration(us)"),
        numbers.microseconds(pl.col("wait_ns")).alias("Wait Time(us)"),
        pl.lit(0).alias("Block Num"),
    ]
