"""Find out how long workers of a data loader take for a batch, and in which function."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.stack_samples import LEAST, Stacks
from ms_profiler.analysis.metrics.stack_tree import Function, Tree
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category
from ms_profiler.store.names import FETCHED

#: smallest share of the samples of batches for which a function is named
NAMED: Final = 0.2


@dataclass(frozen=True)
class Makers:
    """Processes that make batches.

    Attributes:
        processes: number of workers; 0 where the process that trains makes its batches.
        batches: number of batches.
        mean_ns: mean time that making a batch took.
        busy: part of the time from the first to the last batch in which a worker made one, on average.
        slowest: the function of the script that takes most of it, with its line and its caller; empty if unknown.
        share: the part of the time of making batches that this function takes.
    """

    processes: int
    batches: int
    mean_ns: float
    busy: float
    slowest: str
    share: float


def makers(recording: tables.Recording, used: Steps, stacks: Callable[[], Stacks]) -> Makers | None:
    """Return who makes the batches; None if no batch was seen to be made.

    Args:
        recording: the run.
        used: the steps in use.
        stacks: returns the stacks of the run.
    """
    fetches = recording.spans.filter(
        pl.col("category") == int(Category.DATA),
        pl.col("name").is_in((recording.names == FETCHED).arg_true().implode()),
    )
    apart = fetches.filter(pl.col("process") != used.process)
    own = fetches if apart.is_empty() else apart
    if own.is_empty():
        return None
    length = pl.col("end_ns") - pl.col("start_ns")
    whole = pl.col("end_ns").max() - pl.col("start_ns").min()
    sums = own.group_by("process").agg(length.sum().alias("made"), whole.alias("whole"), pl.len().alias("count"))
    return Makers(
        0 if apart.is_empty() else sums.height,
        own.height,
        float(sums["made"].sum()) / own.height,
        float(sums["made"].sum()) / max(float(sums["whole"].sum()), 1.0),
        *_slowest(own, stacks()),
    )


def _slowest(fetches: pl.DataFrame, stacks: Stacks) -> tuple[str, float]:
    """Return the function of the script in which most samples of batches were taken, with the line and the function of
    the script that called it; and its share.
    """
    counts: dict[tuple[Function, ...], dict[tuple[int, ...], int]] = {}
    samples = 0
    for process, tree in stacks.trees.items() if stacks.known else ():
        own = intervals.union(fetches.filter(pl.col("process") == process))
        moments = stacks.moments.filter(pl.col("process") == process)
        inside = moments.filter(intervals.locate(moments["time_ns"], own).is_not_null())
        frames = stacks.recording.frames.filter(pl.col("process") == process)
        callers = dict(frames.select("node", "caller").iter_rows())
        for node, count in inside.group_by("node").len().iter_rows():
            samples += count
            chain = _chain(node, tree, callers)
            lines = counts.setdefault(tuple(tree.functions[tree.places[at]] for at in chain), {})
            told = tuple(tree.lines[at] for at in chain)
            lines[told] = lines.get(told, 0) + count
    if samples < LEAST:
        return "", 0.0
    top = max(counts, key=lambda key: (sum(counts[key].values()), [function.label for function in key]))
    usual = max(counts[top].items(), key=lambda item: (item[1], item[0]))[0]
    places = [f"{function.name} at {function.file}:{line}" for function, line in zip(top, usual, strict=True)]
    return ", called from ".join(places), sum(counts[top].values()) / samples


def _chain(node: int, tree: Tree, callers: dict[int, int]) -> list[int]:
    """Return the two innermost nodes of the script on the path to a node, the innermost first."""
    found: list[int] = []
    while node in tree.places and len(found) < 2:
        if tree.functions[tree.places[node]].own:
            found.append(node)
        node = callers.get(node, 0)
    return found


def words(found: Makers | None) -> str:
    """Return words about who makes the batches, to follow the numbers of waits; empty if that is not known.

    Args:
        found: the result of `makers`.
    """
    if found is None or not found.batches:
        return ""
    who = f"{found.processes} workers" if found.processes > 1 else "the worker" if found.processes else "the job itself"
    text = f"; {who} made a batch in {found.mean_ns / 1e6:.1f} ms, busy with it {found.busy * 100:.0f} % of the time"
    if not found.slowest or found.share < NAMED:
        return text
    return f"{text}, {found.share * 100:.0f} % of it in {found.slowest}"
