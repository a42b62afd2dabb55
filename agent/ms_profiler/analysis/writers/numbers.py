"""Format numbers of tables. Times are microseconds with three decimals: they are exact, down to a nanosecond."""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.model.tables import Form

#: value of the column `Device_id` for work on a processor
HOST: Final = "host"
#: names of an allocator's totals
HOLDINGS: Final = ("Allocated", "Reserved", "Active")
#: text of a cell without a value
NOTHING: Final = "N/A"


def microseconds(nanoseconds: pl.Expr) -> pl.Expr:
    """Return nanoseconds as text: microseconds with three decimals. The text is exact, because no double is used."""
    size = nanoseconds.abs()
    return pl.concat_str(
        pl.when(nanoseconds < 0).then(pl.lit("-")).otherwise(pl.lit("")),
        (size // 1000).cast(pl.String),
        pl.lit("."),
        (size % 1000).cast(pl.String).str.zfill(3),
    )


def moment(column: str) -> pl.Expr:
    """Return a column of ns since the epoch as text in microseconds. A tab keeps spreadsheets from rounding it."""
    return pl.concat_str(microseconds(pl.col(column)), pl.lit("\t"))


def megabytes(column: str) -> pl.Expr:
    """Return a column of bytes in units of 2^20 bytes, rounded to about a byte."""
    return (pl.col(column) / 2**20).round(6)


def device_type(measures: Measures) -> pl.Expr:
    """Return the column `Device Type`, which names the device of the memory: `CPU` for memory of the host."""
    device = measures.recording.device
    processor = device is None or device.form == Form.MS_PROFILER
    kind = "GPU" if device is not None and device.form == Form.CUPTI else "NPU"
    return pl.lit("CPU" if processor else f"{kind}:{measures.recording.info.device_id}").alias("Device Type")


def mean(total: str, count: str) -> pl.Expr:
    """Return the quotient of two columns of whole numbers, rounded to a whole number."""
    return (pl.col(total) + pl.col(count).cast(pl.Int64) // 2) // pl.col(count).cast(pl.Int64)


def device_id(measures: Measures) -> list[pl.Expr]:
    """Return the column `Device_id`; an empty list for torch_npu's tables, which do not have this column."""
    device = measures.recording.device
    if device is None or device.form == Form.MS_PROFILER:
        return [pl.lit(HOST).alias("Device_id")]
    known = device.form in (Form.MINDSPORE, Form.CUPTI, Form.MSPTI, Form.ACLPROF)
    return [pl.lit(measures.recording.info.device_id).alias("Device_id")] if known else []
