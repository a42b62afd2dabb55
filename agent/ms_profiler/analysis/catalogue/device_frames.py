"""Build the tables of the catalogue that have the same figures about a device as Holistic Trace Analysis."""

import polars as pl

from ms_profiler.analysis.metrics import device_statistics, intervals
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category

_TIMES = (
    pl.col("start_ns").alias("start"),
    pl.col("end_ns").alias("stop"),
    (pl.col("end_ns") - pl.col("start_ns")).alias("dur"),
)


def launches(measures: Measures) -> pl.DataFrame:
    """Return the kernels, copies and sets of a device with the calls that launched them."""
    found = device_statistics.launches(_device(measures))
    return found.with_columns(
        *_TIMES,
        *(pl.col(f"{name}_ns").alias(name) for name in ("launch", "called", "delay")),
        _step(measures, found["launch_ns"]),
    )


def idle(measures: Measures) -> pl.DataFrame:
    """Return the gaps between the work of each stream, with their causes."""
    found = device_statistics.idle(_device(measures))
    return found.with_columns(*_TIMES)


def queue(measures: Measures) -> pl.DataFrame:
    """Return the length of each stream's queue over time: work that was launched and has not begun."""
    return device_statistics.queue(_device(measures)).with_columns(pl.col("time_ns").alias("time"))


def kinds(measures: Measures) -> pl.DataFrame:
    """Return the time for which a device did each combination of kinds of work, such as computing and copying."""
    return device_statistics.kinds(_device(measures)).with_columns(pl.col("total_ns").alias("total"))


def copy_sums(measures: Measures) -> pl.DataFrame:
    """Return the copies by kind, with their bandwidth."""
    length = pl.col("end_ns") - pl.col("start_ns")
    sums = (
        _device(measures)
        .copies.group_by("name")
        .agg(
            pl.len().cast(pl.UInt64).alias("count"),
            pl.col("bytes").cast(pl.Int64).sum(),
            length.sum().alias("total"),
            length.min().alias("min"),
            length.max().alias("max"),
        )
    )
    moved = pl.when(pl.col("total") > 0).then(pl.col("bytes") / pl.col("total"))
    return sums.with_columns(moved.alias("bandwidth")).sort("total", "name", descending=[True, False])


def sequences(measures: Measures) -> pl.DataFrame:
    """Return, for each operator, the sequences of kernels that its calls launched."""
    kernels, stream, recording = measures.stream.table, measures.stream, measures.recording
    known = kernels.select(
        pl.col("launch").alias("span"),
        stream.names["full_name"].gather(kernels["kernel"]).alias("name"),
        "start_ns",
        "duration_ns",
    )
    spans = recording.spans.with_row_index("span").select(
        "span",
        recording.names.gather(recording.spans["name"]).alias("operator"),
        pl.col("parent").cast(pl.UInt32),
        pl.col("category").is_in([int(Category.OP), int(Category.COMMUNICATION)]).alias("own"),
    )
    return device_statistics.sequences(device_statistics.around(known, _operators(spans))).with_columns(
        pl.col("total_ns").alias("total")
    )


def _operators(spans: pl.DataFrame) -> pl.DataFrame:
    """Return the operators among spans, each with the operator around it: `span`, `operator`, `parent`."""
    own = spans.filter("own").drop("own")
    outer = pl.Series(own["parent"])
    kinds, parents = spans["own"], spans["parent"]
    # between an operator and the operator around it, there may be spans that are not operators
    while (passed := outer.is_not_null() & ~kinds.gather(outer).fill_null(True)).any():
        outer = parents.gather(outer).zip_with(passed, outer)
    return own.with_columns(outer.alias("parent"))


def _device(measures: Measures) -> tables.Device:
    return measures.recording.device or tables.Device.none()


def _step(measures: Measures, times: pl.Series) -> pl.Series:
    steps = measures.steps.table
    return steps["number"].gather(intervals.locate(times, steps)).alias("step")
