"""Waits of the host for a device: the calls, and the awaited tasks.

Calls that synchronize return when the device has done what was asked for before; copies without `Async` in their name,
when they are done. An asynchronous copy to or from memory that the system may move (`Pageable`) is none: it blocks, and
so does any other copy whose call returns only after the copy has ended.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.model import tables

#: calls that return when the device is done: of CUDA, ROCm, AscendCL, MTIA, Level Zero, Unified Runtime and SYCL
_SYNCHRONIZING: Final = r"(?i)synchroni[sz]e|^ur(QueueFinish|EventWait)$|^sycl.*wait$"
#: copies that are done when the call returns; CANN's runtime tells its calls without a prefix
_COPYING: Final = r"^(cuda|hip|acl(rt)?|cu|mu|mc|rt)?Memcpy(\w*)$"
_ASYNCHRONOUS: Final = r"Async|Batch"
#: calls that are told as waits of the host, in the words of our own tracing
_ON_HOST: Final = ("stream synchronize", "context synchronize", "event synchronize")
#: in the name of a copy: memory that the system may move
PAGEABLE: Final = "Pageable"
_NO_STREAM: Final = 2**32 - 1
#: what computes gradients, on a thread of its own that the script waits for
_AUTOGRAD: Final = "autograd::engine::evaluate_function"

#: when the host waited: `stream` that it waited for, null where it is no single one, and `released_ns`, when the copy
#: that it waited for began, null for anything else
WAITED: Final = pl.Schema(
    {"start_ns": pl.Int64, "end_ns": pl.Int64, "thread": pl.Int64, "stream": pl.UInt32, "released_ns": pl.Int64}
)


def waits(device: tables.Device) -> pl.DataFrame:
    """Return `WAITED`, by start.

    Args:
        device: what is known of it; threads are those of the operating system, and null where they are not known.
    """
    calls = device.calls.select(*intervals.BOUNDS, "name", "thread")
    name = pl.col("name")
    synchronizing = calls.filter(name.str.contains(_SYNCHRONIZING))
    told = device.waits.filter(name.is_in(_ON_HOST)).select(
        "start_ns", "end_ns", pl.when(pl.col("stream") != _NO_STREAM).then("stream").alias("stream")
    )
    # where the device's interface told which stream a call waited for
    known = synchronizing.join_asof(
        told.select(pl.col("start_ns").alias("told_ns"), "stream", pl.col("end_ns").alias("told_end_ns")).sort(
            "told_ns"
        ),
        left_on="start_ns",
        right_on="told_ns",
        strategy="forward",
    ).with_columns(pl.when(pl.col("told_ns") < pl.col("end_ns")).then("stream").alias("stream"))
    alone = told.join(synchronizing.select("start_ns"), on="start_ns", how="anti") if calls.is_empty() else told.head(0)
    named = calls.filter(name.str.contains(_COPYING), ~name.str.contains(_ASYNCHRONOUS))
    copied = _copied(device, calls)
    found = [
        known.select(*intervals.BOUNDS, "thread", "stream", pl.lit(None, pl.Int64).alias("released_ns")),
        alone.select(*intervals.BOUNDS, pl.lit(None, pl.Int64).alias("thread"), "stream", released_ns=None),
        named.select(*intervals.BOUNDS, "thread", stream=None, released_ns=None).join(
            copied.select("start_ns", "thread"), on=["start_ns", "thread"], how="anti"
        ),
        copied,
    ]
    return pl.concat([part.select(WAITED.names()).cast(WAITED) for part in found]).sort("start_ns", "end_ns")


def told(device: tables.Device) -> bool:
    """Return whether anything says when the host waited: without calls of a runtime and waits, nothing does.

    Where no launch is known either, tasks alone say what was busy, and the host is not asked.

    Args:
        device: what is known of it.
    """
    launches = device.runs["launch_ns"].null_count() < device.runs.height
    return not launches or not (device.calls.is_empty() and device.waits.is_empty())


def of_path(waited: pl.DataFrame, recording: tables.Recording, process: int, thread: int) -> pl.DataFrame:
    """Return the waits that hold up the steps: on the stepping thread, or where its gradients are computed.

    Args:
        waited: of `waits`.
        recording: its threads and spans.
        process: pid of the steps.
        thread: that steps.
    """
    spans = recording.spans.filter(pl.col("process") == process)
    engine = pl.Series(recording.names.str.starts_with(_AUTOGRAD)).arg_true()
    computing = spans.filter(pl.col("name").is_in(engine.implode()))["thread"].unique()
    own = recording.threads.filter(
        pl.col("process") == process, (pl.col("thread") == thread) | pl.col("thread").is_in(computing.implode())
    )
    native = own["native_tid"].cast(pl.Int64)
    return waited.filter(pl.col("thread").is_null() | pl.col("thread").is_in(native.implode()))


def _copied(device: tables.Device, calls: pl.DataFrame) -> pl.DataFrame:
    """Return the calls that waited for the copy that they asked for."""
    copies = device.copies.drop_nulls("launch_ns").select(
        "stream",
        pl.col("name").str.contains(PAGEABLE).alias("pageable"),
        pl.col("start_ns").alias("released_ns"),
        pl.col("end_ns").alias("copied_ns"),
        pl.col("launch_ns").alias("start_ns"),
    )
    called = calls.join(copies.unique("start_ns", keep="last"), on="start_ns", how="inner")
    ended = pl.col("end_ns") >= pl.col("copied_ns")
    # of what is copied from pageable memory the call leaves when the last of it is in the hands of the driver
    during = pl.col("pageable") & (pl.col("end_ns") > pl.col("released_ns"))
    return called.filter(ended | during).select(WAITED.names())
