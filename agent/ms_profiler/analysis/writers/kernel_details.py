"""kernel_details.csv: one row per kernel, by lane and start.

The columns and their order are those that MindSpore's public documents list for runs without a profiler level:

- `Step ID` is empty outside of steps. The column always exists, because readers select steps by this column.
- `Stream ID` is the lane of the kernel. On a CPU, the lane is a worker thread of the framework.
- `Wait Time` is the gap before the kernel in its lane.
- `Block Num` is 0 on a CPU and for tasks without blocks, because readers expect a number.

Some columns exist only in some runs:

- `Input Shapes`, if any shape is known.
- `Module Binding` says how ms-profiler found the kernel's module: `exact`, `by parameter` or `by order`.
- `Module` is the module of the kernel. In ms-profiler's own device tracing, it is the module that contains the call
  that launched the kernel, or the module whose gradient the kernel computes.
- Further columns of CANN's `op_summary`, such as counters, are added unchanged for kernels that aclprof recorded.

PyTorch's operators on a CPU compute during their call, without kernels. In such a run, the rows are the operators that
`host_operators.listed` chooses, and `Duration` is the self time of an operator. `Stream ID` is the thread of the
operator, and `Module` is the module around the operator.
"""

import os
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

import polars as pl

from ms_profiler.analysis.columns import CHUNK, Integer, Microseconds, Part, Texts
from ms_profiler.analysis.driver.sections import Section
from ms_profiler.analysis.metrics import intervals, operands
from ms_profiler.analysis.metrics.binding import INFERRED, Bound
from ms_profiler.analysis.metrics.kernels import HOST_CPU
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.writers import csv_lines, numbers
from ms_profiler.analysis.writers.csv_lines import Cells
from ms_profiler.store import layout

#: Texts of the column `Module Binding`, in the order of `Bound`: how ms-profiler found the module of a kernel.
_HOW: Final = Texts({Bound.MODULE: "exact", **INFERRED}.get(bound, numbers.NOTHING) for bound in sorted(Bound))
_NOTHING: Final = (numbers.NOTHING,)
#: columns that identify a kernel in CANN's table
_WHERE: Final = ("stream", "start_ns")


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    return os.path.join(layout.OUTPUT, layout.KERNEL_DETAILS)


def applies(measures: Measures) -> bool:
    """Return whether the run has kernels, or operators that compute on the CPU."""
    if measures.stream.decides:
        return not measures.stream.table.is_empty()
    return not measures.host_operators.is_empty()


def part(measures: Measures, number: int) -> str:
    """Return the path of the only file, in which all sections form one table."""
    return path(measures)


def write(measures: Measures, section: Section, stream: BinaryIO) -> None:
    """Write the rows of a section."""
    header = section.first
    for count, columns in _rows(measures, section):
        if header:
            stream.write((",".join(columns) + "\n").encode())
        csv_lines.write(stream, count, columns)
        header = False


def _rows(measures: Measures, section: Section) -> Iterator[tuple[int, dict[str, Sequence[Part]]]]:
    if not measures.stream.decides:
        return _operators(measures, section)
    return _kernels(measures) if section.first else iter(())


def _kernels(measures: Measures) -> Iterator[tuple[int, dict[str, Sequence[Part]]]]:
    kernels = measures.stream
    names, types, cores = (Cells(kernels.names[column]) for column in ("full_name", "type", "core"))
    modules, shapes = Cells(kernels.texts), Cells('"' + kernels.texts + '"')
    known = kernels.table["shapes"].is_not_null().any()
    inferred = kernels.table["bound"].is_in(list(map(int, INFERRED))).any()
    device = measures.recording.device
    launched = device is not None and device.launches is not None
    details = None if device is None or device.details is None else _Details(device.details)
    for rows in kernels.table.iter_slices(CHUNK):
        kernel = rows["kernel"]
        step = measures.steps.table["number"].gather(rows["step"])
        columns = _columns(rows, step, "lane", names.at(kernel), types.at(kernel), cores.at(kernel))
        if details is not None:
            columns |= details.at(rows)
        if known:
            columns["Input Shapes"] = (shapes.at(rows["shapes"]),)
        if inferred or launched:
            columns["Module"] = (modules.at(rows["module"]),)
        if inferred:
            columns["Module Binding"] = (_HOW.at(rows["bound"]),)
        yield rows.height, columns


class _Details:
    """Further columns of CANN's table of kernels: counters of the AI Core, types, and numbers of tasks."""

    def __init__(self, details: pl.DataFrame) -> None:
        numbered = details.select(*_WHERE).with_row_index("row").unique(_WHERE, keep="first")
        self._rows = numbered.rename({"stream": "lane"})
        self._cells = {name: Cells(details[name]) for name in details.columns if name not in _WHERE}

    def at(self, kernels: pl.DataFrame) -> dict[str, Sequence[Part]]:
        """Return the further columns for the rows of `kernels`: name -> cells."""
        place = kernels.select("lane", "start_ns").join(
            self._rows, on=["lane", "start_ns"], how="left", maintain_order="left"
        )["row"]
        return {name: (cells.at(place),) for name, cells in self._cells.items()}


def _operators(measures: Measures, section: Section) -> Iterator[tuple[int, dict[str, Sequence[Part]]]]:
    steps = measures.steps.table
    names = Cells(measures.recording.names)
    texts = Cells('"' + measures.recording.names + '"')
    for rows in section.operators.filter("listed").iter_slices(CHUNK):
        own = rows["process"] == measures.steps.process
        times = rows["start_ns"].zip_with(own, pl.Series([None], dtype=pl.Int64))
        step = steps["number"].gather(intervals.locate(times, steps))
        name = names.at(rows["name"])
        columns = _columns(rows.with_columns(duration_ns="self_ns"), step, "thread", name, name, HOST_CPU)
        if measures.shaped:
            columns["Input Shapes"] = (texts.at(operands.shapes(rows)),)
        yield rows.height, {**columns, "Module": (names.at(rows["module"]),)}


def _columns(
    rows: pl.DataFrame, step: pl.Series, lane: str, name: Part, kind: Part, core: Part
) -> dict[str, Sequence[Part]]:
    """Return the columns that the file always has: name -> cells."""
    return {
        "Step ID": (Integer(step),),
        "Model ID": _NOTHING,
        "Task ID": _NOTHING,
        "Stream ID": (Integer(rows[lane]),),
        "Name": (name,),
        "Type": (kind,),
        "OP State": _NOTHING,
        "Accelerator Core": (core,),
        # a tab keeps spreadsheets from rounding 19 digits
        "Start Time(us)": (Microseconds(rows["start_ns"]), "\t"),
        "Duration(us)": (Microseconds(rows["duration_ns"]),),
        "Wait Time(us)": (Microseconds(rows["wait_ns"]),),
        "Block Num": ("0",),
    }
