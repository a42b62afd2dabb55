"""Find the module in which a late rank takes longer: the time of each module in each part of a rank's mean step."""

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import polars as pl

from ms_profiler.analysis.comparison import moments
from ms_profiler.analysis.comparison.module_changes import Tree
from ms_profiler.analysis.metrics import bounds, long_kernels

if TYPE_CHECKING:
    from ms_profiler.analysis.metrics.measures import Measures

#: part of a step (`metrics.bounds`) -> path of a module, or "" for time of no module -> its own time in it, ns per step
ModuleTimes = Mapping[str, Mapping[str, int]]
#: the parts in which a module works; waits for data or for other ranks say nothing about the module around them
WORK: Final = (bounds.COMPUTING, bounds.LAUNCH, bounds.HOST, bounds.BLOCKED)
#: A module is named if it has at least the share `_MOST` of the time by which a part takes longer than on other ranks,
#: and if this is at least `_ABOVE` times its share of the part on these ranks: a rank may be slower in all modules.
_MOST: Final = 0.5
_ABOVE: Final = 1.25


def times(measures: "Measures") -> dict[str, dict[str, int]]:
    """Return the own time of each module in a mean step, by part of the step.

    Args:
        measures: the measures of the rank's run.
    """
    found, table = measures.diagnosis, measures.stream.table
    steady = measures.steady["row"]
    rows = steady.filter(steady.is_in(found.parts["step"].unique().implode())).to_list()
    more = long_kernels.excess(long_kernels.found(measures.recording, table), table)
    cells = moments.cells(measures, found, rows, more).filter(pl.col("part").is_in(WORK))
    sums = cells.group_by("part", "module").agg(pl.col("ns").sum()).sort("part", "module")
    taken: dict[str, dict[str, int]] = {}
    for part, module, ns in sums.iter_rows():
        taken.setdefault(part, {})[module] = ns
    return taken


def longer(part: str, own: ModuleTimes, others: Sequence[ModuleTimes]) -> str:
    """Return the path of the module that takes most of the time by which a part takes longer; empty if none does.

    The time of the other ranks is the median of those that have the module. Modules that no other rank has, as those of
    another stage of a pipeline, cannot be compared.

    Args:
        part: a part of the step.
        own: the times of the rank.
        others: the times of the other ranks.
    """
    usual: dict[str, int] = {}
    for path in _paths(own):
        known = [each.get(part, {}).get(path, 0) for each in others if path in _paths(each)]
        if known:
            usual[path] = int(statistics.median(known))
    more = {path: own.get(part, {}).get(path, 0) - time for path, time in usual.items()}
    excess, whole = sum(more.values()), max(sum(usual.values()), 1)
    if excess <= 0:
        return ""
    tree = Tree({path: change for path, change in more.items() if path})
    for path, inside in tree.explained(excess * _MOST):
        share = sum(more[each] for each in inside) / excess
        if share >= max(_MOST, _ABOVE * sum(usual[each] for each in inside) / whole):
            return path
    return ""


def _paths(known: ModuleTimes) -> set[str]:
    return {path for modules in known.values() for path in modules}
