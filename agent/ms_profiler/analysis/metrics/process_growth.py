"""Find the growth of the memory of the stepping process, without what MindSpore's kernel recorder keeps.

The recorder keeps memory from the begin of a window to its end: 470 bytes per kernel and, in pynative mode, inputs of
steps whose size nobody knows. At the end of a window it frees this memory. The process then keeps it for the next
window, or returns it to the system. In both cases a window of n steps leaves the next window's first n steps without
growth that comes from the recorder alone.
"""

from itertools import pairwise

import polars as pl

from ms_profiler.analysis.metrics import growth
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.store.names import HELD, KERNEL_WINDOW_MOST

#: MindSpore's recorder keeps this many bytes per kernel until it is emptied. They do not count as memory of the job
HELD_PER_KERNEL = 470
#: share of the average growth that must remain between two steps of equal age in successive windows
REMAINS = 0.75


def found(
    recording: tables.Recording, steps: Steps, kernels: pl.DataFrame, compiled: list[int]
) -> growth.Growth | None:
    """Return the memory that each step adds; None if MindSpore's recorder may have kept all of the added memory.

    Args:
        recording: the data that were read.
        steps: the steps in use.
        kernels: kernels: `start_ns`.
        compiled: steps (rows of `steps.table`) that compiled something.
    """
    windows = sorted(
        (window for window in recording.windows if window.process == steps.process), key=lambda each: each.start_ns
    )
    samples = _held(recording, steps, windows, kernels)
    leak = growth.growth(samples, steps, compiled)
    if leak is None or not windows or recording.info.framework.get("mode") != "pynative":
        return leak
    return leak if leak.total > KERNEL_WINDOW_MOST or _remains(samples, steps, windows, leak) else None


def _remains(samples: pl.DataFrame, steps: Steps, windows: list[tables.Window], leak: growth.Growth) -> bool:
    """Return whether the memory still grows from one window to the next, at the same age of the windows.

    The age is the number of steps since the begin of the window, here the last age that both windows reached. It lies
    after the first step of the examined growth, because caches fill before. For two successive windows,

        growth = memory in the second window at this age - memory in the first window at this age
        growth >= max(`growth.LEAST`, `REMAINS` * average growth per step * steps in between)

    Args:
        samples: memory of the process: `time_ns`, `held` (bytes), sorted by time.
        steps: the steps in use.
        windows: the windows of the process, sorted by start.
        leak: the growth of the process.
    """
    ends = steps.table["end_ns"].sort()
    examined = int(steps.table.filter(pl.col("number") < leak.first).height)
    aged = samples.with_columns(row=ends.search_sorted(samples["time_ns"], side="right").cast(pl.Int64))
    for first, second in pairwise(windows):
        before, after = (
            aged.filter(pl.col("time_ns").is_between(window.start_ns, window.end_ns, closed="left"))
            for window in (first, second)
        )
        if before.height < 2 or after.height < 2:
            continue
        begins = [int(ends.search_sorted(window.start_ns, side="right")) for window in (first, second)]
        age = min(int(before["row"][-1]) - begins[0], int(after["row"][-1]) - begins[1])
        earlier, later = (
            part.filter(pl.col("row") >= begin + age).head(1)
            for part, begin in ((before, begins[0]), (after, begins[1]))
        )
        if earlier["row"][0] <= examined:
            continue
        grown = int(later["held"][0]) - int(earlier["held"][0])
        if grown >= max(growth.LEAST, REMAINS * leak.per_step * int(later["row"][0] - earlier["row"][0])):
            return True
    return False


def _held(
    recording: tables.Recording, steps: Steps, windows: list[tables.Window], kernels: pl.DataFrame
) -> pl.DataFrame:
    """Return the memory that the job held. Records that MindSpore's recorder keeps until it is emptied do not count."""
    own = recording.counters.filter(pl.col("process") == steps.process)
    own = own.filter(recording.names.gather(own["name"]) == HELD).sort("time_ns").select("time_ns", "value")
    in_recorder = growth.kernels_since(own["time_ns"], windows, kernels["start_ns"].sort()) * HELD_PER_KERNEL
    return own.select("time_ns", (pl.col("value").cast(pl.Int64) - in_recorder).alias("held"))
