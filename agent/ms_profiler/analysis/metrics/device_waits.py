"""Find when the host waited for a device, and for which stream or copy of the device.

The host waits in three kinds of calls:

- Calls that synchronize. They return when the device has finished the work that was launched before.
- Calls of copies without `Async` in their names. They return when the copy is done.
- Calls of other copies, if the copy is to or from pageable memory (`Pageable`) or if the call returns only after the
  copy has ended.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.model import tables

#: calls that return when the device has finished, of CUDA, ROCm, AscendCL, MTIA, Level Zero, Unified Runtime and SYCL
_SYNCHRONIZING: Final = r"(?i)synchroni[sz]e|^ur(QueueFinish|EventWait)$|^sycl.*wait$"
#: names of copying calls that return when the copy is done; CANN's runtime reports its calls without a prefix
_COPYING: Final = r"^(cuda|hip|acl(rt)?|cu|mu|mc|rt)?Memcpy(\w*)$"
_ASYNCHRONOUS: Final = r"Async|Batch"
#: names of waits of the host in recordings of ms-profiler itself
ON_HOST: Final = ("stream synchronize", "context synchronize", "event synchronize")
#: text in the names of copies to or from pageable memory
PAGEABLE: Final = "Pageable"
_NO_STREAM: Final = 2**32 - 1
#: The names of autograd's spans begin with this text. Autograd computes gradients on its own thread, and the script
#: waits for this thread.
_AUTOGRAD: Final = "autograd::engine::evaluate_function"

#: the waits of the host. `stream` is the awaited stream; null if the host awaits several. `released_ns` is the start of
#: the awaited copy; null if the host awaits no copy
WAITED: Final = pl.Schema(
    {"start_ns": pl.Int64, "end_ns": pl.Int64, "thread": pl.Int64, "stream": pl.UInt32, "released_ns": pl.Int64}
)


def waits(device: tables.Device) -> pl.DataFrame:
    """Return the waits of the host for a device as `WAITED`, sorted by start.

    Args:
        device: the device, with its tables. Their column `thread` contains the operating system's number of the thread,
            or null if the thread is unknown.
    """
    calls = device.calls.select(*intervals.BOUNDS, "name", "thread")
    name = pl.col("name")
    synchronizing = calls.filter(name.str.contains(_SYNCHRONIZING))
    recorded = device.waits.filter(name.is_in(ON_HOST)).select(
        "start_ns", "end_ns", pl.when(pl.col("stream") != _NO_STREAM).then("stream").alias("stream")
    )
    # the device's interface may have reported which stream a call waited for
    known = synchronizing.join_asof(
        recorded.select(
            pl.col("start_ns").alias("recorded_ns"), "stream", pl.col("end_ns").alias("recorded_end_ns")
        ).sort("recorded_ns"),
        left_on="start_ns",
        right_on="recorded_ns",
        strategy="forward",
    ).with_columns(pl.when(pl.col("recorded_ns") < pl.col("end_ns")).then("stream").alias("stream"))
    alone = (
        recorded.join(synchronizing.select("start_ns"), on="start_ns", how="anti")
        if calls.is_empty()
        else recorded.head(0)
    )
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


def known(device: tables.Device) -> bool:
    """Return whether waits of the host for a device are known, from calls of its runtime or from recorded waits.

    The result is also True if no launch is known, because then the critical path depends only on the tasks.

    Args:
        device: the tables of the device.
    """
    return device.totals.launched == 0 or not (device.calls.is_empty() and device.waits.is_empty())


def of_path(waited: pl.DataFrame, recording: tables.Recording, process: int, thread: int) -> pl.DataFrame:
    """Return the waits that delay the steps: those of the stepping thread and of the threads that compute gradients.

    Args:
        waited: the host's waits for the device, from `waits`.
        recording: the recording, with its threads and spans.
        process: pid of the process that runs the steps.
        thread: number of the stepping thread, which runs the steps.
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
    """Return the calls that started a copy and waited for it, with the columns of `WAITED`."""
    copies = device.copies.drop_nulls("launch_ns").select(
        "stream",
        pl.col("name").str.contains(PAGEABLE).alias("pageable"),
        pl.col("start_ns").alias("released_ns"),
        pl.col("end_ns").alias("copied_ns"),
        pl.col("launch_ns").alias("start_ns"),
    )
    called = calls.join(copies.unique("start_ns", keep="last"), on="start_ns", how="inner")
    ended = pl.col("end_ns") >= pl.col("copied_ns")
    # the call of a copy from pageable memory may return before the copy ends: it returns when the driver has taken over
    # the last data
    during = pl.col("pageable") & (pl.col("end_ns") > pl.col("released_ns"))
    return called.filter(ended | during).select(WAITED.names())
