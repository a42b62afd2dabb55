"""Measure how long the workers of a data loader take to make a batch, and find the slowest function."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import fetches, intervals, transforms
from ms_profiler.analysis.metrics.advice.base import BatchTexts
from ms_profiler.analysis.metrics.stack_samples import LEAST, Stacks
from ms_profiler.analysis.metrics.stack_tree import Function, Tree
from ms_profiler.analysis.metrics.steps import Steps, stepping
from ms_profiler.analysis.metrics.traced_calls import Calls
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category

#: a function is named in the advice only if it takes at least this share of the time of making batches
NAMED: Final = 0.2
#: two workers differ if the median times of their batches differ by this factor, and each made `FEWEST` batches
SKEWED: Final = 3.0
FEWEST: Final = 3
#: long batches are named if there are at least `FEWEST`, and at most as many as other ones, if their median is at least
#: `LONG` times that of the others, and if they take at least the share `MUCH` of the time of making batches
LONG: Final = 5.0
MUCH: Final = 0.5
#: workers that make batches in less than this share of the waits for data are not the reason for most of the waits
LIMIT: Final = 0.5
#: smallest number of recorded batches for each wait for data from which something follows about the workers
KNOWN: Final = 0.8
_NO_LIMIT: Final = (
    "Making batches is not the limit. Look in the trace at what else these waits contain: the start of the workers, "
    "sending a batch to the job, what the job does with it, or waits for a processor."
)


@dataclass(frozen=True)
class Makers:
    """Figures of the processes that make batches for the training process.

    Attributes:
        processes: number of processes that worked; 0 if the training process makes its own batches.
        together: largest number of these processes that lived at the same time.
        batches: number of batches that they made.
        mean_ns: mean time that making a batch took.
        busy: share of the workers' time in which they make batches: time spent making batches / time from a worker's
            first to its last batch. Both times are summed over the workers.
        during: share of the training process's waits for data, in its steps, in which at least one worker makes a
            batch; None without waits.
        slowest: text about the function of the script that takes most of the time of making batches: its name, its
            line and its caller; empty if unknown.
        share: time of this function / time of making batches.
        skew: the median times of a batch of two workers that worked at the same time, in ns: of the slowest worker, and
            of the fastest one beside it; None if they hardly differ.
        long: number of long batches, the shortest time of them, and the median time of the others, in ns; None if the
            batches hardly differ.
    """

    processes: int
    together: int
    batches: int
    mean_ns: float
    busy: float
    during: float | None
    slowest: str
    share: float
    skew: tuple[float, float] | None = None
    long: tuple[int, float, float] | None = None


def makers(recording: tables.Recording, used: Steps, stacks: Callable[[], Stacks]) -> Makers | None:
    """Return figures of the processes that make the batches; None if no making of a batch was recorded.

    Args:
        recording: the run.
        used: the steps in use.
        stacks: a function that returns the Python stacks of the run. It is called only if batches were recorded.
    """
    made = fetches.made(recording)
    apart = made.filter(pl.col("process") != used.process)
    own = made if apart.is_empty() else apart
    if own.is_empty():
        return None
    length = pl.col("end_ns") - pl.col("start_ns")
    sums = own.group_by("process").agg(
        length.sum().alias("made"),
        length.median().alias("median"),
        pl.col("start_ns").min(),
        pl.col("end_ns").max(),
        pl.len().alias("count"),
    )
    sums = sums.with_columns(whole=length)
    return Makers(
        0 if apart.is_empty() else sums.height,
        fetches.together(recording, apart),
        own.height,
        float(sums["made"].sum()) / own.height,
        float(sums["made"].sum()) / max(float(sums["whole"].sum()), 1.0),
        _during(own, recording, used),
        *_slowest(own, stacks()),
        _skew(sums),
        _long(sorted(own.select(length).to_series().to_list())),
    )


def _skew(sums: pl.DataFrame) -> tuple[float, float] | None:
    """Return the median times of a batch of the slowest worker and of the fastest one beside it; None if they agree.

    A worker is beside another one if it worked for at least half of the same time. Workers of other loaders often
    worked at another time.

    Args:
        sums: the workers: `start_ns` and `end_ns` of their work, `median`, `count`.
    """
    known = sums.filter(pl.col("count") >= FEWEST).sort("median")
    if known.height < 2:
        return None
    slowest = known.row(-1, named=True)
    common = pl.min_horizontal("end_ns", slowest["end_ns"]) - pl.max_horizontal("start_ns", slowest["start_ns"])
    fastest = float(known.filter(2 * common >= slowest["end_ns"] - slowest["start_ns"])["median"][0])
    return (slowest["median"], fastest) if slowest["median"] >= SKEWED * max(fastest, 1.0) else None


def _long(lengths: list[int]) -> tuple[int, float, float] | None:
    """Return the number of long batches, their shortest time, and the median of the others; None without long ones.

    The long batches begin after the largest ratio of two neighbours in the longer half.

    Args:
        lengths: the times of all batches, sorted.
    """
    first = range(len(lengths) // 2 + 1, len(lengths) - FEWEST + 1)
    if not first:
        return None
    split = max(first, key=lambda at: lengths[at] / max(lengths[at - 1], 1))
    others, long = lengths[:split], lengths[split:]
    if statistics.median(long) < LONG * max(statistics.median(others), 1) or sum(long) < MUCH * sum(lengths):
        return None
    return len(long), long[0], statistics.median(others)


def _during(fetches: pl.DataFrame, recording: tables.Recording, used: Steps) -> float | None:
    """Return the share of the waits for data in the steps in which at least one of the fetches runs; None if no waits.

    Args:
        fetches: the intervals in which workers make batches.
        recording: the run.
        used: the steps in use.
    """
    waits = stepping(recording.spans, used, Category.DATA)
    if fetches.height < KNOWN * waits.height:
        return None  # some workers have no records, for example because they were killed
    inside = intervals.intersect(intervals.union(waits), used.table.select(intervals.BOUNDS))
    made = intervals.intersect(inside, intervals.union(fetches))
    return None if inside.is_empty() else intervals.total_ns(made) / max(intervals.total_ns(inside), 1)


def _slowest(fetches: pl.DataFrame, stacks: Stacks) -> tuple[str, float]:
    """Return text about the function of the script that takes most of the time of making batches, and its share.

    The text contains the name of the function, its line, and its caller in the script. The share is
    time of the function / time of making batches.
    """
    if not stacks.known and not stacks.calls.known:
        return "", 0.0
    weights: dict[tuple[Function, ...], Counter[tuple[int, ...]]] = {}
    for process, thread in fetches.select("process", "thread").unique(maintain_order=True).iter_rows():
        own = intervals.union(fetches.filter(pl.col("process") == process, pl.col("thread") == thread))
        found = _sampled(stacks, process, thread, own) if stacks.known else _traced(stacks.calls, process, thread, own)
        for functions, lines, weight in found:
            weights.setdefault(functions, Counter())[lines] += weight
    whole = sum(lines.total() for lines in weights.values())
    if not whole or (stacks.known and whole < LEAST):
        return "", 0.0
    top = max(weights, key=lambda key: (weights[key].total(), [function.label for function in key]))
    usual = max(weights[top].items(), key=lambda item: (item[1], item[0]))[0]
    places = [f"{function.name} at {function.file}:{line}" for function, line in zip(top, usual, strict=True)]
    return ", called from ".join(places), weights[top].total() / whole


def limit(found: Makers | None) -> bool:
    """Return whether the time to make batches can be the reason for most of the waits for data.

    Args:
        found: the figures of the processes that make batches, from `makers`; None if unknown.
    """
    return found is None or not found.processes or found.during is None or found.during >= LIMIT


#: items with three parts: the two innermost functions of the script, the line in each function, and a weight
_Found = Iterator[tuple[tuple[Function, ...], tuple[int, ...], int]]


def _sampled(stacks: Stacks, process: int, thread: int, own: pl.DataFrame) -> _Found:
    """Yield the functions that a thread's stack samples show while the thread made batches.

    The weight of an item is its number of samples.

    Args:
        stacks: the sampled Python stacks of the run.
        process: pid of the thread's process.
        thread: number of the thread.
        own: the intervals in which the thread made batches.
    """
    moments = stacks.of_recorded(process, thread)
    inside = moments.filter(intervals.locate(moments["time_ns"], own).is_not_null())
    frames = stacks.recording.frames.filter(pl.col("process") == process)
    callers = dict(frames.select("node", "caller").iter_rows())
    for node, count in inside.group_by("node").len().iter_rows():
        tree = stacks.trees[process]
        chain = _chain(node, tree, callers)
        yield tuple(tree.functions[tree.places[at]] for at in chain), tuple(tree.lines[at] for at in chain), count


def _traced(calls: Calls, process: int, thread: int, own: pl.DataFrame) -> _Found:
    """Yield the functions that a thread called while it made batches.

    The weight of an item is the time of the call in ns. The line of a function is its first line.

    Args:
        calls: the traced calls of the run.
        process: pid of the thread's process.
        thread: number of the thread.
        own: the intervals in which the thread made batches.
    """
    rows, _ = calls.paths
    pieces = list(calls.segments(calls.of_thread(process, thread)))
    table = pl.DataFrame(pieces, schema={"start_ns": pl.Int64, "end_ns": pl.Int64, "row": pl.Int64}, orient="row")
    inside = table.filter(intervals.locate(table["start_ns"], own).is_not_null())
    for row, length in inside.group_by("row").agg((pl.col("end_ns") - pl.col("start_ns")).sum()).iter_rows():
        path = (calls.functions[number] for number in reversed(calls.path(rows[row])))
        chain = tuple(islice((function for function in path if function.own), 2))
        yield chain, tuple(function.line for function in chain), length


def _chain(node: int, tree: Tree, callers: dict[int, int]) -> list[int]:
    """Return the two innermost nodes of the script on the path to a node of the call tree, the innermost first."""
    found: list[int] = []
    while node in tree.places and len(found) < 2:
        if tree.functions[tree.places[node]].own:
            found.append(node)
        node = callers.get(node, 0)
    return found


def words(found: Makers | None) -> tuple[str, str]:
    """Return text about the processes that make the batches, and what to do if more of them help little.

    Both texts are empty if unknown. The advice appends the first text to its text about waits for data.

    Args:
        found: the figures of the processes that make batches, from `makers`.
    """
    if found is None or not found.batches:
        return "", ""
    who = f"{found.together} workers" if found.together > 1 else "the worker" if found.processes else "the job itself"
    if found.processes > found.together:
        who = who if found.together > 1 else "one worker"
        who += f" at a time ({found.processes} processes in all)"
    text = f"; {who} made a batch in {found.mean_ns / 1e6:.1f} ms, busy with it {found.busy * 100:.0f} % of the time"
    if not limit(found) and found.during is not None:
        return f"{text}, and in {found.during * 100:.0f} % of the time in which the job waits for data", _NO_LIMIT
    if found.slowest and found.share >= NAMED:
        text += f", {found.share * 100:.0f} % of it in {found.slowest}"
    if found.skew is not None:
        slow, fast = (f"{median / 1e6:.1f} ms" for median in found.skew)
        text += f"; they differ: a batch takes {slow} in one worker, {fast} in another one (medians)"
        return text, "Find out why one worker is slower (its files, its items): batches keep their order, so all wait."
    if found.long is not None:
        count, least, others = found.long
        text += f"; {count} of {found.batches} batches took {least / 1e6:.1f} ms or more, "
        text += f"the others {others / 1e6:.1f} ms (median)"
    return text, ""


def told(recording: tables.Recording, used: Steps, stacks: Callable[[], Stacks]) -> BatchTexts:
    """Return texts about the functions of MindSpore's datasets, or else about the makers of batches.

    Args:
        recording: the run.
        used: the steps in use.
        stacks: a function that returns the Python stacks of the run.
    """
    sums = transforms.sums(recording)
    functions, beside = transforms.words(sums, recording, used), transforms.beside(sums, used)
    if functions:
        return BatchTexts(functions, "", beside)
    text, remedy = words(makers(recording, used, stacks))
    return BatchTexts(*((text, remedy) if text else transforms.elsewhere(recording)), beside)
