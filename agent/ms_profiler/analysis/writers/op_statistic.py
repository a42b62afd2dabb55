"""op_statistic.csv: number and time of the kernels of each type, most time first.

Columns are those of MindSpore's public profiler documents. Times are microseconds with three decimals.

PyTorch's operators on a CPU compute during their call. In such a run, the file lists operators instead of kernels, and
has the further column `Self Time(us)`: the time without inner operators. `Ratio(%)` and the order of the rows come
from the self times, because total times overlap.
"""

import os
from typing import BinaryIO

import polars as pl

from ms_profiler.analysis.metrics.kernels import HOST_CPU
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.model.tables import Form
from ms_profiler.analysis.writers import csv_lines, numbers
from ms_profiler.store import layout


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    return os.path.join(layout.OUTPUT, layout.OP_STATISTIC)


def applies(measures: Measures) -> bool:
    """Return whether the run has kernels of known types, or operators that compute on the CPU."""
    if measures.stream.decides:
        return not measures.types.is_empty() and not _untyped(measures)
    return not measures.host_operators.is_empty()


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the table."""
    kernels = measures.stream.decides
    own = pl.col("self_ns")
    types = measures.types
    if not kernels:
        ratio = own / pl.max_horizontal(own.sum(), 1)
        types = measures.operators.with_columns(ratio=ratio, core=pl.lit(HOST_CPU))
    table = types.select(
        *numbers.device_id(measures),
        pl.col("name").alias("OP Type"),
        pl.col("core").alias("Core Type"),
        pl.col("count").alias("Count"),
        numbers.microseconds(pl.col("total_ns")).alias("Total Time(us)"),
        numbers.microseconds(pl.col("min_ns")).alias("Min Time(us)"),
        numbers.microseconds(numbers.mean("total_ns", "count")).alias("Avg Time(us)"),
        numbers.microseconds(pl.col("max_ns")).alias("Max Time(us)"),
        (pl.col("ratio") * 100).round(3).alias("Ratio(%)"),
        *([] if kernels else [numbers.microseconds(own).alias("Self Time(us)")]),
    )
    csv_lines.write_frame(table, stream, float_precision=3)


def _untyped(measures: Measures) -> bool:
    """Return whether the types of kernels are unknown, because below profiler level 1 only their names are recorded."""
    device = measures.recording.device
    return (
        device is not None
        and device.form not in (Form.KINETO, Form.CUPTI, Form.MSPTI, Form.ACLPROF)
        and device.tasks.filter(~pl.col("exchange"))["type"].is_null().all()
    )
