"""Tell reads of tensors in the host's memory from reads for which the host waits for a device.

The hooks of `Tensor.item` and its like do not ask where a tensor lies, because asking takes as long as such a read. A
read of a device's tensor calls the device's driver, to copy the value and to wait for it. A read of a tensor in the
host's memory calls no driver. PyTorch's Adam, for example, reads two counters of steps for each parameter.
"""

import polars as pl

from ms_profiler.analysis.metrics import reads
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers.device_sources import DeviceSource
from ms_profiler.store.format import Category


def settle(recording: tables.Recording, steps: Steps, calls: pl.DataFrame, source: DeviceSource) -> None:
    """Change the category of reads without a call of the driver from `SYNC` to `OTHER`.

    A schedule or another profiler may stop the recording of calls for some steps. So the driver's calls before and
    after the read must be in the same step or in neighbouring steps.

    Args:
        recording: the run; its spans are changed.
        steps: the steps of the process that used the device.
        calls: the calls of the driver in this process: `start_ns` and `native_tid`.
        source: the interface that reported the calls.
    """
    if not source.reports_reads:
        return
    spans = recording.spans
    named = recording.names.str.starts_with(reads.SPAN).gather(spans["name"])
    reading = (spans["category"] == int(Category.SYNC)) & (spans["process"] == steps.process) & named
    found = spans.select("thread", "start_ns", "end_ns").with_row_index("row").filter(reading)
    if found.is_empty() or calls.is_empty():
        return
    times = calls["start_ns"].sort()
    at = times.search_sorted(found["start_ns"]).cast(pl.Int64)
    around = (at > 0) & (at < times.len())
    starts = steps.table["start_ns"].sort()
    borders = [
        starts.search_sorted(times.gather(rows.clip(0, times.len() - 1)), side="right").cast(pl.Int64)
        for rows in (at - 1, at)
    ]
    recorded = around & (borders[1] - borders[0] <= 1)
    threads = recording.threads.filter(pl.col("process") == steps.process).select("thread", "native_tid")
    alone = [pl.Series("row", dtype=pl.UInt32)]
    for (thread,), own in found.filter(recorded).group_by("thread"):
        natives = threads.filter(pl.col("thread") == thread)["native_tid"]
        called = calls.filter(pl.col("native_tid").is_in(natives.implode()))["start_ns"].sort()
        first, last = (called.search_sorted(own[name]) for name in ("start_ns", "end_ns"))
        alone.append(own["row"].filter(first == last).rename("row"))
    rows = pl.concat(alone)
    if not rows.is_empty():
        category = spans["category"].scatter(rows, int(Category.OTHER))
        recording.spans = spans.with_columns(category)
