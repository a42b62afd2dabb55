"""operator_details.csv: every call of an operator with its input shapes, by time; only with `record_shapes`.

Columns are those of MindSpore's public profiler documents. Dimensions are separated by commas, inputs by semicolons; an
input without dimensions leaves its place empty.

Some columns exist only in some runs:

- Where operators compute in their call, the file has the known columns of Ascend's PyTorch adapter (time of the
  operator by itself and in all), and the module around the operator.
- Where calls of Python were traced, it has the stack from which the operator was called.
- Shapes of PyTorch's operators exist where any is known.
- Where our own tracing recorded work that operators launched on a device, the last columns have its time, with or
  without `record_shapes`.
"""

import os
from typing import BinaryIO

import polars as pl

from ms_profiler.analysis.metrics import device_operators, host_operators, operands
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.writers import csv_lines, numbers
from ms_profiler.store import layout

_OPTION = "record_shapes"


def path(measures: Measures) -> str:
    """Return the path of the file."""
    return os.path.join(layout.OUTPUT, layout.OPERATOR_DETAILS)


def applies(measures: Measures) -> bool:
    """Return whether shapes were requested, and operators, or shapes of kernels, are known."""
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
    """Return the operators with the time of the kernels that they launched."""
    spans = measures.recording.spans
    times = device_operators.times(spans, measures.stream.table).filter(measures.drawn.is_not_null())
    return host_operators.calls(pl.concat([measures.spans, times], how="horizontal"))


def _stacks(measures: Measures, rows: pl.DataFrame) -> list[pl.Series]:
    """Return the Python stack that each operator was called from, where calls were traced."""
    calls = measures.stacks.calls
    if not calls.known:
        return []
    found = pl.Series("Call Stack", [""] * rows.height, dtype=pl.String)
    numbered = rows.with_row_index("at")
    for (process, thread), own in numbered.group_by("process", "thread", maintain_order=True):
        texts = calls.stacks_at(int(str(process)), int(str(thread)), own["start_ns"])
        found = found.scatter(own["at"], texts)
    return [found]


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
