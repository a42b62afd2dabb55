"""memory_record.csv: memory of the framework's allocator, after each allocation and release.

Columns are those of MindSpore's public profiler documents; a megabyte is 2^20 bytes. On a CPU, the rows come from the
allocator of host tensors, and `Device Type` is `CPU`. In a result of another tool, each row names a component of a
device. torch_npu's form also has a `Stream Ptr`.
"""

import os
from typing import BinaryIO

import polars as pl

from ms_profiler.analysis.metrics import memory
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.model.tables import Form
from ms_profiler.analysis.writers import csv_lines, numbers
from ms_profiler.store import layout


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    return os.path.join(layout.OUTPUT, layout.MEMORY_RECORD)


def applies(measures: Measures) -> bool:
    """Return whether memory was recorded."""
    device = measures.recording.device
    return not (measures.memory if device is None else device.memory).is_empty()


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the table."""
    device = measures.recording.device
    held = measures.memory.with_columns(memory.component(measures.recording)) if device is None else device.memory
    torch = device is not None and device.form == Form.TORCH_NPU
    kineto = device is not None and device.form == Form.KINETO
    table = held.select(
        pl.col("component").alias("Component"),
        numbers.moment("time_ns").alias("Timestamp(us)"),
        *(numbers.megabytes(name.lower()).alias(f"Total {name}(MB)") for name in numbers.HOLDINGS),
        *([pl.col("stream").alias("Stream Ptr")] if torch else []),
        pl.col("component").str.replace(" ", ":").alias("Device Type") if kineto else numbers.device_type(measures),
    )
    csv_lines.write_frame(table, stream)
