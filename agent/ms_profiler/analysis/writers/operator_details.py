"""operator_details.csv: every call of an operator with its input shapes, by time.

The file exists if one of these was recorded: shapes (`record_shapes`), the device work of operators, calls of Python.
Columns are those of MindSpore's public profiler documents. In shapes, commas separate dimensions, and semicolons
separate inputs. An input without dimensions is empty: "4,8;8;;".

Some columns exist only in some runs:

- If the rows are operators and not kernels, the file has the module around the operator, and the operator's self time
  and total time. The columns of these times are named as in the file of Ascend's PyTorch adapter.
- If calls of Python were traced, the file has the stack from which the operator was called. A stack may occur in many
  rows. If this column would take more than 256 MB, only the first rows of a stack have it, and later rows have N/A.
- If any shape of PyTorch's operators is known, the file has the shapes.
- If ms-profiler recorded the work that operators launched on a device, the last columns have the time of this work.
"""

import os
from typing import BinaryIO

import polars as pl

from ms_profiler.analysis.metrics import device_operators, host_operators, operands
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.writers import csv_lines, numbers
from ms_profiler.store import layout

_OPTION = "record_shapes"
#: Largest size of the column `Call Stack` in bytes. A stack takes 1 to 2 kB: a million operators would take 1 to 2 GB.
STACKS_MOST = 256 << 20


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    return os.path.join(layout.OUTPUT, layout.OPERATOR_DETAILS)


def applies(measures: Measures) -> bool:
    """Return whether the run has operators with launches or stacks, or shapes that were requested and recorded."""
    if _launches(measures) or measures.stacks.calls.known:
        return not measures.operators.is_empty()
    if not measures.recording.info.options.get(_OPTION):
        return False
    return not measures.host_operators.is_empty() or bool(measures.stream.table["shapes"].is_not_null().any())


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the table."""
    if _launches(measures):
        _write_operators(measures, _on_device(measures), stream)
        return
    if not measures.host_operators.is_empty():
        _write_operators(measures, measures.host_operators, stream)
        return
    kernels = measures.stream
    rows = kernels.table.filter(pl.col("shapes").is_not_null()).sort("start_ns", "process", "lane", "kernel")
    table = rows.select(
        kernels.names["full_name"].gather(rows["kernel"]).alias("Name"),
        kernels.texts.gather(rows["shapes"]).alias("Input Shapes"),
    )
    csv_lines.write_frame(table, stream)


def _launches(measures: Measures) -> bool:
    """Return whether the work that operators launched is known."""
    device = measures.recording.device
    return device is not None and device.launches is not None


def _on_device(measures: Measures) -> pl.DataFrame:
    """Return the operators, each with the time of the kernels that it launched."""
    spans = measures.recording.spans
    times = device_operators.times(spans, measures.stream.table).filter(measures.drawn.is_not_null())
    return host_operators.calls(pl.concat([measures.spans, times], how="horizontal"))


def _stacks(measures: Measures, rows: pl.DataFrame) -> list[pl.Series]:
    """Return the column with the Python stack from which each operator was called; no column if no call was traced."""
    calls = measures.stacks.calls
    if not calls.known:
        return []
    numbered = rows.select("process", "thread", "start_ns").with_row_index("at")
    parts = [
        own.select("at", calls.paths_at(int(str(process)), int(str(thread)), own["start_ns"]).alias("path"))
        for (process, thread), own in numbered.group_by("process", "thread", maintain_order=True)
    ]
    paths = pl.concat(parts).sort("at").select("path")
    known = paths["path"].drop_nulls().value_counts()
    texts = known.select("path", text=pl.Series([calls.stack(path) for path in known["path"]], dtype=pl.String))
    sizes, times = texts["text"].str.len_bytes(), max(known["count"].to_list(), default=0)
    while times > 1 and int((known["count"].clip(upper_bound=times) * sizes).sum()) > STACKS_MOST:
        times //= 2
    shown = pl.int_range(pl.len()).over("path") < times
    column = paths.join(texts, "path", how="left", maintain_order="left").select(
        pl.when(pl.col("path").is_null())
        .then(pl.lit(""))
        .when(shown)
        .then("text")
        .otherwise(pl.lit(numbers.NOTHING))
        .alias("Call Stack")
    )
    return [column.to_series()]


def _write_operators(measures: Measures, operators: pl.DataFrame, stream: BinaryIO) -> None:
    names = measures.recording.names
    rows = operators.sort("start_ns", "process", "thread", maintain_order=True)
    shapes = names.gather(operands.shapes(rows)).fill_null(numbers.NOTHING).alias("Input Shapes")
    table = rows.select(
        names.gather(rows["name"]).alias("Name"),
        *([shapes] if measures.shaped else []),
        *_stacks(measures, rows),
        names.gather(rows["module"]).fill_null(numbers.NOTHING).alias("Module"),
        numbers.microseconds(pl.col("self_ns")).alias("Host Self Duration(us)"),
        numbers.microseconds(pl.col("duration_ns")).alias("Host Total Duration(us)"),
        *(
            numbers.microseconds(pl.col(f"device_{name.lower()}_ns")).alias(f"Device {name} Duration(us)")
            for name in ("Self", "Total")
            if f"device_{name.lower()}_ns" in rows.columns
        ),
    )
    csv_lines.write_frame(table, stream)
