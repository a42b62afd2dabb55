"""kernel_details.csv: one row a kernel, by lane and start.

Columns and order are those of MindSpore's public profiler documents without a profiler level. `Input Shapes` follows
where any is known. Where modules were inferred from the order of a backward pass, `Module` follows, and how each is
known: `exact` or `by order`. `Step ID` is always there, because readers that are asked for one step look for it, and
empty outside the steps. The lane, a worker of the framework, stands as `Stream ID`: `Wait Time` is the gap in it.
`Block Num` has no meaning on a processor and is 0, as on a device for what has no blocks: readers want a number.
"""

import os
from typing import BinaryIO, Final

import polars as pl

from ms_profiler.analysis.measures import Measures
from ms_profiler.analysis.metrics.binding import Bound
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
    return measures.stream.decides and not measures.stream.table.is_empty()


def write(measures: Measures, stream: BinaryIO, *, pretty: bool) -> None:
    """Write the table."""
    kernels = measures.stream
    known = kernels.table["shapes"].is_not_null().any()
    ordered = kernels.table["bound"].eq(int(Bound.ORDER)).any()
    header = True
    for rows in kernels.table.iter_slices(_CHUNK):
        columns = [
            measures.steps.table["number"].gather(rows["step"]).alias("Step ID"),
            pl.lit(numbers.NOTHING).alias("Model ID"),
            pl.lit(numbers.NOTHING).alias("Task ID"),
            rows["lane"].alias("Stream ID"),
            kernels.names["full_name"].gather(rows["kernel"]).alias("Name"),
            kernels.names["type"].gather(rows["kernel"]).alias("Type"),
            pl.lit(numbers.NOTHING).alias("OP State"),
            pl.lit(numbers.HOST_CPU).alias("Accelerator Core"),
            # a tab keeps spreadsheets from rounding 19 digits
            pl.concat_str(numbers.microseconds(pl.col("start_ns")), pl.lit("\t")).alias("Start Time(us)"),
            numbers.microseconds(pl.col("duration_ns")).alias("Duration(us)"),
            numbers.microseconds(pl.col("wait_ns")).alias("Wait Time(us)"),
            pl.lit(0).alias("Block Num"),
        ]
        if known:
            quoted = pl.concat_str(pl.lit('"'), kernels.texts.gather(rows["shapes"]), pl.lit('"'))
            columns.append(quoted.fill_null(numbers.NOTHING).alias("Input Shapes"))
        if ordered:
            columns.append(kernels.texts.gather(rows["module"]).fill_null(numbers.NOTHING).alias("Module"))
            columns.append(_HOW.gather(rows["bound"]).alias("Module Binding"))
        rows.select(columns).write_csv(stream, include_header=header)
        header = False
