"""step_trace_time.csv: one row per step. Times are microseconds with three decimals, and every cell is a number.

Columns and names are those of MindSpore's public profiler documents. The formulas are in `metrics.overlap`, and for
results of other tools in `metrics.device_steps`. A run without steps has one row, step 0.
"""

import os
from typing import BinaryIO

import polars as pl

from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.writers import numbers
from ms_profiler.store import layout

_COLUMNS = {
    "Computing": "computing",
    "Communication(Not Overlapped)": "not_overlapped",
    "Overlapped": "overlapped",
    "Communication": "communication",
    "Free": "free",
    "Stage": "stage",
    "Bubble": "bubble",
    "Communication(Not Overlapped and Exclude Receive)": "exclusive",
    "Preparing": "preparing",
}


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    return os.path.join(layout.OUTPUT, layout.STEP_TRACE_TIME)


def applies(measures: Measures) -> bool:
    """Return whether any step was recorded and, if there is a device, whether any work of the device was recorded."""
    device = measures.recording.device
    return not measures.stream.times.is_empty() and (device is None or not device.tasks.is_empty())


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the table."""
    table(measures).write_csv(stream, quote_style="never")


def table(measures: Measures) -> pl.DataFrame:
    """Return the table: `Step`, and the times in microseconds as text."""
    rows = measures.stream.times.with_columns(exclusive=pl.col("not_overlapped") - pl.col("bubble"))
    steps = measures.steps.table["number"].gather(rows["step"])
    return rows.select(
        steps.alias("Step"), *(numbers.microseconds(pl.col(name)).alias(column) for column, name in _COLUMNS.items())
    )
