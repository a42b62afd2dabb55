"""Compute the curves that are drawn beside a device's timeline: queues, concurrent work, copy bandwidth, memory."""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import device_statistics, intervals
from ms_profiler.analysis.model import tables

#: a curve with more points than this is thinned: it is cut into slices of time, and each slice keeps only its largest
#: and its last point
MOST: Final = 10_000
#: the number of a stream contains the number of its device: device = `stream // _LANES`
_LANES: Final = 2**16
_POINTS: Final = pl.Schema({"name": pl.String, "time_ns": pl.Int64, "value": pl.Float64})


def counters(device: tables.Device) -> pl.DataFrame:
    """Return the curves of a device: `name`, `time_ns`, `value`, sorted by name and time.

    - queue: number of kernels, copies and memory settings that were launched on a stream but have not begun.
    - at once: number of kernels, copies and memory settings that run on a device at the same time.
    - GB/s: bandwidth of the copies of one kind = sum of (bytes / duration) over the running copies.
    - allocated, reserved: bytes that an allocator holds.

    Args:
        device: the device, with its tasks, copies and memory.
    """
    # each kind of curve is thinned before the next kind is computed, so only one kind has all its points in memory
    kinds = (_queues, _running, _bandwidths, _memory)
    thinned = [_thinned(kind(device).sort("name", "time_ns", maintain_order=True)) for kind in kinds]
    return pl.concat(thinned).sort("name", "time_ns", maintain_order=True)


def _queues(device: tables.Device) -> pl.DataFrame:
    queue = device_statistics.queue(device)
    return queue.select(
        _texts("queue of stream {}", queue["stream"]),
        "time_ns",
        pl.col("length").cast(pl.Float64).alias("value"),
    )


def _running(device: tables.Device) -> pl.DataFrame:
    ran = device_statistics.ran(device).select("stream", *intervals.BOUNDS)
    changes = _changes(ran.with_columns(_texts("at once on device {}", ran["stream"] // _LANES), rate=1))
    return changes.with_columns(pl.col("value").cast(pl.Float64))


def _bandwidths(device: tables.Device) -> pl.DataFrame:
    length = pl.col("end_ns") - pl.col("start_ns")
    known = device.copies.filter(length > 0, pl.col("bytes") > 0)
    # rates are whole bytes per second, so sums have no rounding errors: if no copy runs, the sum is exactly 0
    rates = known.select(
        pl.format("GB/s of {}", "name").alias("name"),
        *intervals.BOUNDS,
        rate=(pl.col("bytes").cast(pl.Float64) / length * 1e9).round().cast(pl.Int64),
    )
    return _changes(rates).with_columns(pl.col("value") / 1e9)


def _texts(form: str, numbers: pl.Series) -> pl.Series:
    """Return a name for each number, as a column `name` whose type takes few bytes and sorts as text does."""
    different = numbers.unique()
    texts = [form.format(number) for number in different]
    return numbers.replace_strict(different, texts, return_dtype=pl.Enum(sorted(texts))).rename("name")


def _memory(device: tables.Device) -> pl.DataFrame:
    parts = [
        device.memory.select(
            pl.format(f"{what} by {{}}, bytes", "component").alias("name"),
            "time_ns",
            pl.col(what).cast(pl.Float64).alias("value"),
        ).drop_nulls()
        for what in ("allocated", "reserved")
    ]
    return pl.concat(parts)


def _changes(rates: pl.DataFrame) -> pl.DataFrame:
    """Return a curve for each name, with a point at each change: `name`, `time_ns`, `value`.

    value(t) = sum of the rates of all intervals of this name that contain the time t

    Args:
        rates: intervals with a rate: `name`, `start_ns`, `end_ns`, `rate` (a whole number).
    """
    rate = pl.col("rate").cast(pl.Int64)
    ends = pl.concat(
        [
            rates.select("name", pl.col("start_ns").alias("time_ns"), rate.alias("change")),
            rates.select("name", pl.col("end_ns").alias("time_ns"), (-rate).alias("change")),
        ]
    )
    return device_statistics.added_up(ends, "name")


def _thinned(points: pl.DataFrame) -> pl.DataFrame:
    first, last = pl.col("time_ns").first().over("name"), pl.col("time_ns").last().over("name")
    part = (pl.col("time_ns") - first) * (MOST // 2) // (last - first).clip(lower_bound=1)
    many = points.with_columns(part=part, many=pl.len().over("name") > MOST).with_row_index("row")
    slices = (
        many.filter("many")
        .group_by("name", "part")
        .agg(pl.col("row").sort_by("value").last().alias("most"), pl.col("row").last().alias("last"))
    )
    ends = pl.concat([slices["most"], slices["last"]]).unique()
    return many.filter(~pl.col("many") | pl.col("row").is_in(ends.implode())).select(_POINTS.names()).cast(_POINTS)
