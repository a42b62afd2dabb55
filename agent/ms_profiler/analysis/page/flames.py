"""Collect the flame graph: how many sampled stacks contain each function, in each phase of a step."""

from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.measures import Measures

#: largest number of functions in a flame graph; the rarest ones are left out
MOST: Final = 20_000
#: phase of a sample outside of all steps
OUTSIDE: Final = "outside of steps"


def content(measures: Measures) -> dict[str, Any] | None:
    """Return the functions of the flame graph. A function comes after its caller. None if no stack was sampled.

    Args:
        measures: the measures of the run.

    Returns:
        `labels`: the label of each function; `caller`: the index of its caller, -1 for a thread; `samples`: phase ->
            for each function, the number of samples in which it is the innermost function; `period_ns`: the time
            between two samples; `left_out`: the number of functions left out.
    """
    stacks = measures.stacks
    if not stacks.known:
        return None
    moments = stacks.moments
    pieces = measures.pieces.sort("start_ns")
    phase = pieces["phase"].gather(intervals.locate(moments["time_ns"], pieces)).fill_null(OUTSIDE)
    own = moments.select("process", "place", phase=phase).group_by("process", "place", "phase").len()
    first, labels, callers = {}, list[str](), list[int]()
    for process, tree in stacks.trees.items():
        first[process] = len(labels)
        several = f" of process {process}" if len(stacks.trees) > 1 else ""
        labels += [
            f"{function.label}{several if caller < 0 else ''}"
            for function, caller in zip(tree.functions, tree.callers, strict=True)
        ]
        callers += [caller if caller < 0 else caller + first[process] for caller in tree.callers]
    order = own.group_by("phase").agg(pl.col("len").sum()).sort("len", "phase", descending=[True, False])["phase"]
    samples = {name: [0] * len(labels) for name in order}
    for process, place, name, count in own.iter_rows():
        samples[name][first[process] + place] += count
    shown = _most_frequent(callers, [sum(column[node] for column in samples.values()) for node in range(len(labels))])
    place = {node: number for number, node in enumerate(shown)}
    # the samples of a function that is left out are added to its caller
    for column in samples.values():
        for node in range(len(labels) - 1, -1, -1):
            if node not in place and callers[node] >= 0:
                column[callers[node]] += column[node]
    return {
        "labels": [labels[node] for node in shown],
        "caller": [place.get(callers[node], -1) for node in shown],
        "samples": {name: [column[node] for node in shown] for name, column in samples.items()},
        "period_ns": stacks.period_ns,
        "left_out": len(labels) - len(shown),
    }


def _most_frequent(callers: list[int], own: list[int]) -> list[int]:
    """Return the indices of the functions to show: the most frequent ones with all their callers."""
    totals = list(own)
    for node in range(len(callers) - 1, -1, -1):
        if callers[node] >= 0:
            totals[callers[node]] += totals[node]
    # A caller has at least as many samples as each function that it calls, and a lower index. So the caller comes first
    # in this order, and is kept if any of these functions is kept
    order = sorted(range(len(callers)), key=lambda node: (-totals[node], node))
    return sorted(order[:MOST])
