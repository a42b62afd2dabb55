"""Find the module in which a late rank takes longer: the time of each module in each part of a rank's mean step."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from ms_profiler.analysis.comparison import moments
from ms_profiler.analysis.comparison.module_changes import Tree
from ms_profiler.analysis.metrics import bounds, long_kernels, module_paths

if TYPE_CHECKING:
    from ms_profiler.analysis.metrics.measures import Measures

#: part of a step (`metrics.bounds`) -> path of a module, or "" for time of no module -> its own time in it, ns per step
ModuleTimes = Mapping[str, Mapping[str, int]]
#: the parts in which a module works; waits for data or for other ranks say nothing about the module around them
WORK: Final = (bounds.COMPUTING, bounds.LAUNCH, bounds.HOST, bounds.BLOCKED)
#: A module is named if it has at least the share `_MOST` of the time by which a part takes longer than on other ranks,
#: and if this is at least `_ABOVE` times its share of the part on these ranks: a rank may be slower in all modules. A
#: module with most of the part cannot have such a share. If it has at most the share `_WHOLE` of the part, it is named
#: if it became longer by `_APART` times as much of its time as the rest. None of this matters if it has `_MOST` of the
#: time in modules that take no time on these ranks.
_MOST: Final = 0.5
_ABOVE: Final = 1.25
_APART, _WHOLE = 3, 0.95
#: A part is far longer in a step if it takes more than `_FAR` times its median, and at least the part `_MUCH` of the
#: median step more. At most the part `_RARE` of the steps, and `_STEPS` of them, are such steps.
_FAR: Final = 1.5
_MUCH: Final = 0.1
_RARE: Final = 0.4
_STEPS: Final = 1_000
#: stands for the module in which a part takes longer, if it is the time of no module
OUTSIDE: Final = "code outside of all modules"
#: such steps tell the module of a late rank if they are at least this part of the steps in which it is late
SHOWN: Final = 0.8
#: in the column `phase`: the step is one in which the part is far longer
_MARK: Final = "far longer"


def times(measures: "Measures") -> tuple[dict[str, dict[str, int]], dict[str, dict[str, Any]]]:
    """Return the own time of each module in a mean step, and the modules that make few steps longer.

    Args:
        measures: the measures of the rank's run.

    Returns:
        First, part of the step -> module -> its own time, ns. Second, for each part that is far longer in few steps, if
        a single module takes most of the difference: part -> `module` (its path) and `steps` (the numbers of these
        steps). The second is empty if the job has one rank only.
    """
    found, table = measures.diagnosis, measures.stream.table
    steady = measures.steady["row"]
    rows = steady.filter(steady.is_in(found.parts["step"].unique().implode())).to_list()
    far = _far(measures, rows) if measures.recording.info.world_size > 1 else {}
    # to find the modules takes long, so they are found once: the phase, which does not matter here, marks the far steps
    marked = pl.DataFrame(
        [(step, part, _MARK) for part, long in far.items() for step in long],
        {"step": found.pieces.schema["step"], "part": pl.String, "phase": pl.String},
        orient="row",
    )
    pieces = found.pieces.drop("phase", strict=False).join(marked, on=["step", "part"], how="left")
    pieces = pieces.with_columns(pl.col("phase").fill_null("")).sort("start_ns")
    more = long_kernels.excess(long_kernels.found(measures.recording, table), table)
    cells = moments.cells(measures, replace(found, pieces=pieces), rows, more).filter(pl.col("part").is_in(WORK))
    sums = cells.group_by("part", "phase", "module").agg(pl.col("ns").sum()).sort("part", "phase", "module")
    taken: dict[str, dict[str, int]] = {}
    sides: dict[tuple[str, str], dict[str, int]] = {}
    for part, mark, module, ns in sums.iter_rows():
        modules = taken.setdefault(part, {})
        modules[module] = modules.get(module, 0) + ns
        sides.setdefault((part, mark), {})[module] = ns
    peaks = {}
    for part, long in far.items():
        own, usual = (
            {module: ns * len(rows) // number for module, ns in sides.get((part, mark), {}).items()}
            for mark, number in ((_MARK, len(long)), ("", len(rows) - len(long)))
        )
        # a module that other steps do not call takes no time in them
        if path := longer(part, {part: own}, [{part: dict.fromkeys(own, 0) | usual}]):
            peaks[part] = {"module": path, "steps": measures.steps.table["number"].gather(long).to_list()}
    return taken, peaks


def _far(measures: "Measures", rows: list[int]) -> dict[str, list[int]]:
    """Return the rows of the steps in which a part of the step is far longer than usual, for each such part.

    Args:
        measures: the measures of the rank's run.
        rows: the rows of the steady steps whose parts are known.
    """
    if not rows:
        return {}
    usual = float(statistics.median(measures.steps.table["duration_ns"].gather(rows).to_list()))
    parts = measures.diagnosis.parts.filter(pl.col("part").is_in(WORK), pl.col("step").is_in(rows))
    found = {}
    for (part,), taken in parts.group_by("part", maintain_order=True):
        lengths = dict.fromkeys(rows, 0) | dict(taken.select("step", "duration_ns").iter_rows())
        median = statistics.median(lengths.values())
        far = [row for row, ns in lengths.items() if ns > max(_FAR * median, median + _MUCH * usual)]
        if 0 < len(far) <= min(_RARE * len(rows), _STEPS):
            found[str(part)] = far
    return found


def longer(part: str, own: ModuleTimes, others: Sequence[ModuleTimes]) -> str:
    """Return the path of the module that takes most of the time by which a part takes longer; empty if none does.

    The result is `OUTSIDE` if the time of the host outside of all modules does.

    The rank is compared with its peers: the ranks that have the most of its modules. The time of the peers is their
    median. If the rank has all modules of its peers, further modules are extra work. Otherwise, as in another stage of
    a pipeline, the time of a module that only one side has counts for the innermost module around it that both have.

    Args:
        part: a part of the step.
        own: the times of the rank.
        others: the times of the other ranks.
    """
    paths = _paths(own)
    alike = [len(paths & _paths(each)) for each in others]
    peers = [each for each, number in zip(others, alike, strict=True) if number == max(alike) > 0]
    if not peers:
        return ""
    common = paths.intersection(*map(_paths, peers))
    if all(_paths(each) <= paths for each in peers):
        common = paths
    mine, *theirs = (_within(common, each.get(part, {})) for each in (own, *peers))
    usual = {path: int(statistics.median(each.get(path, 0) for each in theirs)) for path in common | {""}}
    more = {path: mine.get(path, 0) - time for path, time in usual.items()}
    excess, whole = sum(more.values()), max(sum(usual.values()), 1)
    if excess <= 0:
        return ""
    tree = Tree({path: change for path, change in more.items() if path})
    explained = tree.explained(excess * _MOST)
    # a module and the code around it may take longer together: the modules around it are candidates, too
    around = [path for inner, _ in explained for path in module_paths.prefixes(inner)[-2::-1]]
    # a kernel without a known module may belong to one
    script = [(OUTSIDE, [""])] if common and part != bounds.COMPUTING else []
    for path, inside in [*explained, *((path, tree.inside[path]) for path in around), *script]:
        share = sum(more[each] for each in inside) / excess
        before = sum(usual[each] for each in inside) / whole
        extra = sum(more[each] for each in inside if not usual[each]) / excess
        apart = before <= _WHOLE and share * (1 - before) >= _APART * (1 - share) * before
        if extra >= _MOST or (share >= _MOST and (share >= _ABOVE * before or apart)):
            return path
    return ""


def _within(common: set[str], times: Mapping[str, int]) -> dict[str, int]:
    """Return the times by modules of `common` only: the time of another module counts for the one around it."""
    found: dict[str, int] = {}
    for path, ns in times.items():
        around = path
        while around and around not in common:
            around = around.rpartition(".")[0]
        found[around] = found.get(around, 0) + ns
    return found


def _paths(known: ModuleTimes) -> set[str]:
    return {path for modules in known.values() for path in modules}
