"""operator_memory.csv: the allocations of operators, each with its release.

The rows come from ms-profiler's own recording of a CPU, or from another tool's result of a device. Columns are those of
MindSpore's public profiler documents; a kilobyte is 2^10 bytes. If an allocation has no release, the columns about
the release have N/A in MindSpore's form, and are empty in torch_npu's form.
"""

import os
from typing import BinaryIO, Final

import polars as pl

from ms_profiler.analysis.metrics import tensor_owners
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.model.tables import Form
from ms_profiler.analysis.writers import csv_lines, numbers
from ms_profiler.store import layout

_TOTALS: Final = [f"{when} Total {what}" for when in ("Allocation", "Release") for what in numbers.HOLDINGS]


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    return os.path.join(layout.OUTPUT, layout.OPERATOR_MEMORY)


def applies(measures: Measures) -> bool:
    """Return whether allocations were recorded."""
    return not allocations(measures).is_empty()


def allocations(measures: Measures) -> pl.DataFrame:
    """Return the allocations, as `tables.ALLOCATIONS`."""
    device = measures.recording.device
    if device is not None and not device.allocations.is_empty():
        return device.allocations
    return tensor_owners.allocations(measures.blocks)


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the table."""
    device = measures.recording.device
    table = allocations(measures).select(
        pl.col("name").alias("Name"),
        (pl.col("size") / 1024).alias("Size(KB)"),
        numbers.moment("allocated_ns").alias("Allocation Time(us)"),
        numbers.moment("released_ns").alias("Release Time(us)"),
        numbers.moment("inactive_ns").alias("Active Release Time(us)"),
        numbers.microseconds(pl.col("duration_ns")).alias("Duration(us)"),
        numbers.microseconds(pl.col("active_ns")).alias("Active Duration(us)"),
        *(numbers.megabytes(total.lower().replace(" total ", "_")).alias(f"{total}(MB)") for total in _TOTALS),
        pl.col("stream").alias("Stream Ptr"),
        numbers.device_type(measures),
    )
    nothing = numbers.NOTHING if device is None or device.form == Form.MINDSPORE else ""
    csv_lines.write_frame(table, stream, null_value=nothing)
