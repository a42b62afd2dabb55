"""operator_details.csv: the input shapes of every operator that ran, in order; only when shapes were asked for.

Columns are those of MindSpore's public profiler documents. Dimensions are separated by commas, inputs by semicolons; an
input without dimensions leaves its place empty.

Where operators compute as they are called it holds, as that of Ascend's PyTorch adapter does, what each took by itself
and in all; of the columns there those that are known, and the module around it.
"""

import os
from typing import BinaryIO

import polars as pl

from ms_profiler.analysis.measures import Measures
from ms_profiler.analysis.writers import numbers
from ms_profiler.store import layout

_OPTION = "record_shapes"


def path(measures: Measures) -> str:
    """Return where it goes."""
    return os.path.join(layout.OUTPUT, layout.OPERATOR_DETAILS)


def applies(measures: Measures) -> bool:
    """Tell whether shapes were asked for, and operators, or a shape of one, are known."""
    if not measures.recording.info.options.get(_OPTION):
        return False
    return not measures.host_operators.is_empty() or bool(measures.stream.table["shapes"].is_not_null().any())


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the table."""
    if not measures.host_operators.is_empty():
        _write_operators(measures, stream)
        return
    kernels = measures.stream
    rows = kernels.table.filter(pl.col("shapes").is_not_null()).sort("start_ns", "process", "lane", "kernel")
    rows.select(
        kernels.names["full_name"].gather(rows["kernel"]).alias("Name"),
        kernels.texts.gather(rows["shapes"]).alias("Input Shapes"),
    ).write_csv(stream)


def _write_operators(measures: Measures, stream: BinaryIO) -> None:
    names = measures.recording.names
    rows = measures.host_operators.sort("start_ns", "process", "thread", maintain_order=True)
    rows.select(
        names.gather(rows["name"]).alias("Name"),
        names.gather(rows["module"]).fill_null(numbers.NOTHING).alias("Module"),
        numbers.microseconds(pl.col("self_ns")).alias("Host Self Duration(us)"),
        numbers.microseconds(pl.col("duration_ns")).alias("Host Total Duration(us)"),
    ).write_csv(stream)
