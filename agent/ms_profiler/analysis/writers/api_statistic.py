"""api_statistic.csv: number and time of all calls on the host, by level and name.

Columns are those of MindSpore's public profiler documents. `Level` is the kind of a call, such as `dataset`. Rows are
sorted by level, and within a level by total time, the longest first. Times are microseconds.
`Variance` is the variance of the durations, in square microseconds: (n * sum of squares - square of the sum) / n^2.
The table includes calls of the device's driver. For another tool's result, the table has only calls of the driver.
"""

import os
from typing import Any, BinaryIO, Final

import polars as pl

from ms_profiler.analysis.metrics import operators
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.writers import csv_lines, numbers
from ms_profiler.store import layout
from ms_profiler.store.format import Category

#: category of a span -> value of the column `Level`. The level of other categories is their name in lower case
_LEVELS: Final = {
    Category.RUN: "model",
    Category.EVALUATION: "model",
    Category.MODULE: "module",
    Category.OP: "primitive",
    Category.TRACED: "compile",
    Category.DATA: "dataset",
}


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    return os.path.join(layout.OUTPUT, layout.API_STATISTIC)


def applies(measures: Measures) -> bool:
    """Return whether any call was recorded."""
    device = measures.recording.device
    own = not (measures.recording.foreign or measures.sums.is_empty())
    return own or not (device is None or device.calls.is_empty())


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the table."""
    sums = _sums(measures)
    own = [pl.lit(numbers.HOST).alias("Device_id")]
    table = sums.select(
        *(numbers.device_id(measures) if measures.recording.foreign else own),
        pl.col("level").alias("Level"),
        pl.col("name").alias("API Name"),
        pl.col("total_ns"),
        numbers.microseconds(pl.col("total_ns")).alias("Time(us)"),
        pl.col("count").alias("Count"),
        numbers.microseconds(numbers.mean("total_ns", "count")).alias("Avg(us)"),
        numbers.microseconds(pl.col("min_ns")).alias("Min(us)"),
        numbers.microseconds(pl.col("max_ns")).alias("Max(us)"),
        pl.Series("Variance", [_variance(row) for row in sums.iter_rows(named=True)], dtype=pl.Float64),
    )
    ordered = table.sort("Level", "total_ns", "API Name", descending=[False, True, False]).drop("total_ns")
    csv_lines.write_frame(ordered, stream, float_precision=3)


def _sums(measures: Measures) -> pl.DataFrame:
    device = measures.recording.device
    driver = None
    if device is not None:
        driver = operators.by_level(device.calls) if device.whole is None else device.whole.call_sums
    if driver is not None and measures.recording.foreign:
        return driver
    levels = {int(category): _LEVELS.get(category, category.name.lower()) for category in Category}
    host = measures.sums.with_columns(
        pl.col("category").replace_strict(levels, default="other", return_dtype=pl.String).alias("level"),
        measures.recording.names.gather(measures.sums["name"]).alias("name"),
    )
    return host if driver is None else pl.concat([host.select(driver.columns), driver])


def _variance(row: dict[str, Any]) -> float:
    count, total, squares = int(row["count"]), int(row["total_ns"]), int(row["squares"])
    return round((count * squares - total * total) / (count * count * 10**6), 3)
