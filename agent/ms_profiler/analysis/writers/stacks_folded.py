"""python_stacks.folded: the Python stacks with their numbers of samples, or, if calls were traced, with their times.

A line names the thread and its functions from the outermost to the innermost, then the count: `THREAD;outer;inner 12`.
Times are microseconds. This is the format of Brendan Gregg's FlameGraph; inferno, speedscope and flamegraph.com also
read it.
"""

import os
from typing import BinaryIO, Final

import polars as pl

from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.metrics.traced_calls import Calls
from ms_profiler.store import layout

#: a traced stack has a line of its own if it took at least this share of the time of its thread
_SMALL: Final = 1e-4


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    return os.path.join(layout.OUTPUT, layout.STACKS_FOLDED)


def applies(measures: Measures) -> bool:
    """Return whether stacks were sampled, or calls traced."""
    return measures.stacks.known or measures.stacks.calls.known


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the stacks, by process; within a process, in the order of their first samples."""
    stacks = measures.stacks
    if not stacks.known:
        _write_calls(stacks.calls, stream)
        return
    sums = stacks.samples.group_by("process", "place", maintain_order=True).agg(pl.col("count").sum())
    several = len(stacks.trees) > 1
    for process, place, count in sums.sort("process", maintain_order=True).iter_rows():
        tree = stacks.trees[process]
        labels = [tree.functions[number].label.replace(";", ",") for number in tree.path(place)]
        names = ";".join([f"process {process}"] * several + labels)
        stream.write(f"{names} {count}\n".replace("\r", "").encode())


def _write_calls(calls: Calls, stream: BinaryIO) -> None:
    """Write the stacks of traced calls, each with the self time of its innermost function in microseconds.

    If a stack, together with all stacks that extend it, takes less than `_SMALL` of the thread's time, the time of the
    stack is added to the stack of the caller.
    """
    of, paths = calls.paths
    labels = [function.label.replace(";", ",").replace("\r", "") for function in calls.functions]
    table = calls.table.select("process", "thread", "self_ns", path=pl.Series(of, dtype=pl.Int64))
    for (process, thread), own in table.group_by("process", "thread", maintain_order=True):
        sums = own.group_by("path").agg(pl.col("self_ns").sum()).sort("path", descending=True)
        each = dict(sums.iter_rows())
        least = max(sum(each.values()) * _SMALL, 500)
        taken = dict(each)
        # This loop goes from the largest number of a path to the smallest. A caller's path has a smaller number than
        # the paths of the functions that it called. So the caller comes after these functions.
        for path in each:
            caller = paths[path][0]
            if caller >= 0:
                taken[caller] = taken.get(caller, 0) + taken[path]
                if taken[path] < least:
                    each[caller] = each.get(caller, 0) + each[path]
                    each[path] = 0
        first = calls.threads[int(str(process)), int(str(thread))]
        for path, spent in reversed(each.items()):
            if microseconds := (spent + 500) // 1000:
                names = ";".join([first, *(labels[number] for number in calls.path(path))])
                stream.write(f"{names} {microseconds}\n".encode())
