"""npu_module_mem.csv: memory reserved by the modules of CANN on a device, from the result of another tool.

Columns are those of torch_npu's file; a megabyte is 2^20 bytes.
"""

import os
from typing import BinaryIO

import polars as pl

from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.writers import csv_lines, numbers
from ms_profiler.store import layout


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    return os.path.join(layout.OUTPUT, layout.MODULE_MEMORY)


def applies(measures: Measures) -> bool:
    """Return whether this memory was recorded."""
    device = measures.recording.device
    return device is not None and not device.modules.is_empty()


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the table."""
    device = measures.recording.device
    assert device is not None
    table = device.modules.select(
        pl.col("module").alias("Component"),
        numbers.moment("time_ns").alias("Timestamp(us)"),
        numbers.megabytes("reserved").alias("Total Reserved(MB)"),
        numbers.device_type(measures).alias("Device"),
    )
    csv_lines.write_frame(table, stream)
