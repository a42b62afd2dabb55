"""dataset.csv: number of calls of each operation that loads data, and the mean wait for the operation.

Columns are those of MindSpore's public profiler documents. `Stage` is the phase in which the operation runs.
`Custom Info` is always N/A.
"""

import os
from typing import BinaryIO

import polars as pl

from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.metrics.phases import NAMES
from ms_profiler.analysis.writers import csv_lines
from ms_profiler.store import layout
from ms_profiler.store.format import Category


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    return os.path.join(layout.OUTPUT, layout.DATASET)


def applies(measures: Measures) -> bool:
    """Return whether any data operation was recorded."""
    return not measures.waits.is_empty()


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the table."""
    average = (pl.col("total_ns") / pl.col("count") / 1000).round(3)
    table = measures.waits.select(
        pl.col("operation").alias("Operation"),
        pl.lit(NAMES[Category.DATA]).alias("Stage"),
        pl.col("count").alias("Occurrences"),
        average.alias("Avg. time (us)"),
        pl.lit("N/A").alias("Custom Info"),
    )
    csv_lines.write_frame(table, stream, float_precision=3)
