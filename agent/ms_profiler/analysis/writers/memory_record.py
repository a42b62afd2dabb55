"""memory_record.csv: what the framework's allocator held, each time that it gave or took.

Columns are those of MindSpore's public profiler documents; a megabyte is 2^20 bytes. On a CPU the allocator is that of
tensors on the host, and `Device Type` says so.
"""

import os
from typing import BinaryIO, Final

import polars as pl

from ms_profiler.analysis.measures import Measures
from ms_profiler.analysis.writers import numbers
from ms_profiler.store import layout

_COMPONENT: Final = "MindSpore"
_DEVICE: Final = "CPU"


def path(measures: Measures) -> str:
    """Return where it goes."""
    return os.path.join(layout.OUTPUT, layout.MEMORY_RECORD)


def applies(measures: Measures) -> bool:
    """Tell whether memory was recorded."""
    return not measures.memory.is_empty()


def write(measures: Measures, stream: BinaryIO, *, pretty: bool) -> None:
    """Write the table."""
    measures.memory.select(
        pl.lit(_COMPONENT).alias("Component"),
        # a tab keeps spreadsheets from rounding 19 digits
        pl.concat_str(numbers.microseconds(pl.col("time_ns")), pl.lit("\t")).alias("Timestamp(us)"),
        *(
            (pl.col(name) / 2**20).round(6).alias(f"Total {name.capitalize()}(MB)")
            for name in ("allocated", "reserved", "active")
        ),
        pl.lit(_DEVICE).alias("Device Type"),
    ).write_csv(stream)
