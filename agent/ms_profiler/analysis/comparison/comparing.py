"""Compare two runs, or two sets of runs; `compare.schema.json` describes the result."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from ms_profiler.analysis.comparison import basis, counting, matching, outside_steps, rank_work, sampled, side
from ms_profiler.analysis.comparison.causes import Causes
from ms_profiler.analysis.comparison.digest import Digest, Module, Named
from ms_profiler.analysis.comparison.outside_steps import Change
from ms_profiler.errors import NotComparableError

#: version of the JSON's form
VERSION: Final = 1
#: name of the source of steps if a run has no step marks; the whole run then counts as one step
_WHOLE_RUN: Final = "whole_run"
#: property of machine, versions and workload -> its title
_DIFFERENCES: Final = {
    "cpu": "processor",
    "cores": "processors",
    "device": "device",
    "python": "Python",
    "framework": "framework",
    "profiler": "profiler",
    "mode": "mode",
    "threads": "threads of an operator",
    "world_size": "ranks",
    "network": "outermost modules",
    "modules": "modules",
}
_MEMORY: Final = {"host": "host", "device": "device", "allocated": "tensors"}
#: if two runs share less than this part of their kernel names, they ran on different kinds of devices
KIN: Final = 0.1


@dataclass(frozen=True)
class Row:
    """A figure of a step or a run, on both sides of the comparison.

    Attributes:
        name: the name of the figure.
        before: its value in the first run; None if only the second run has it.
        after: its value in the second run; None if only the first run has it.
        difference: after - before; a missing value counts as 0.
        unit: "ns", "bytes", or "" for a count.
    """

    name: str
    before: float | None
    after: float | None
    difference: float
    unit: str


@dataclass(frozen=True)
class NamedRow:
    """Operators or kernels of one name, with their times and counts on both sides of the comparison.

    Attributes:
        name: the name of the operators or kernels.
        before_ns: ns per step in the first run; None if only the second run has them.
        after_ns: ns per step in the second run; None if only the first run has them.
        difference_ns: after_ns - before_ns; a missing value counts as 0.
        before_count: number per step in the first run; 0 if it has none.
        after_count: number per step in the second run; 0 if it has none.
    """

    name: str
    before_ns: int | None
    after_ns: int | None
    difference_ns: int
    before_count: float
    after_count: float


@dataclass(frozen=True)
class ModuleRow:
    """A module that one or both sides of the comparison have, with its times.

    Attributes:
        name: its path in the second run; if the module is gone, its path in the first run.
        was: its path in the first run; None if only the second run has it.
        matched: how it was matched: "name", "structure", "class", "operators", "order"; empty if only one run has it.
        before_ns: ns per step in the first run, with all modules inside; None if only the second run has it.
        after_ns: ns per step in the second run, with all modules inside; None if only the first run has it.
        difference_ns: after_ns - before_ns; a missing value counts as 0.
        forward_ns: change of its forward pass, ns per step.
        backward_ns: change of its backward pass, ns per step.
        optimizer_ns: change of its optimizer, ns per step.
        self_ns: change of its time without the modules inside, ns per step.
    """

    name: str
    was: str | None
    matched: str
    before_ns: int | None
    after_ns: int | None
    difference_ns: int
    forward_ns: int
    backward_ns: int
    optimizer_ns: int
    self_ns: int


@dataclass(frozen=True)
class Difference:
    """A property of machine, versions or workload that differs.

    Attributes:
        name: the name of the property.
        before: its value in the first run.
        after: its value in the second run.
    """

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class Comparison:
    """The differences between two runs, or two sets of them.

    Attributes:
        version: the version of the JSON's form.
        before: the first side.
        after: the second side.
        causes: the reasons why step times differ.
        phases: ns per step of each phase.
        bounds: ns per step of each part of `metrics.bounds`.
        modules: the modules, the largest difference first.
        operators: self times of operators, ns per step, the largest difference first.
        kernels: times of kernels, ns per step, the largest difference first.
        callers: time of computing kernels, ns per step, by the outermost operator that launched them. Operators, unlike
            kernels, have the same names on every device. Empty if no kernel's operator is known.
        counts: the counts of a step, then the counts of the whole run; without those whose change is uncertain.
        memory: peak memory.
        outside: the times of a run outside of the usual steps that clearly changed.
        differences: the differences of machine, versions and workload.
        notes: the limits of the comparison, one sentence each.
    """

    version: int
    before: side.Side
    after: side.Side
    causes: Causes
    phases: tuple[Row, ...]
    bounds: tuple[Row, ...]
    modules: tuple[ModuleRow, ...]
    operators: tuple[NamedRow, ...]
    kernels: tuple[NamedRow, ...]
    callers: tuple[Row, ...]
    counts: tuple[Row, ...]
    memory: tuple[Row, ...]
    outside: tuple[Change, ...]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as a dictionary for JSON; `compare.schema.json` describes its form."""
        return asdict(self) | {"causes": asdict(self.causes) | {"change_ns": self.causes.change_ns}}


def compare(before: Sequence[Digest], after: Sequence[Digest], names: tuple[str, str]) -> Comparison:
    """Return the differences between two runs, or two sets of repeated runs.

    Args:
        before: the digests of the first side's runs, from `runs.digests`, at least one.
        after: the digests of the second side's runs, from `runs.digests`, at least one.
        names: names of the two sides.

    Raises:
        NotComparableError: one run has steps and the other run has none.
    """
    for name, found in zip(names, (before, after), strict=True):
        if any(run.step.count == 0 for run in found):
            raise NotComparableError(f"{name} has no step that was recorded.", "Record some steps of it.")
    whole = [any(run.step.source == _WHOLE_RUN for run in found) for found in (before, after)]
    # traces of other tools may lack marks of steps, so two such traces are compared as a whole
    own = any(end for run in (*before, *after) for end in run.completeness.ended)
    if any(whole) and (own or not all(whole)):
        name = names[0] if whole[0] else names[1]
        other = "the other run has none either" if all(whole) else "the other run has some"
        remedy = "`ms-profiler summary` says why nothing marked its steps."
        raise NotComparableError(f"{name} has no steps, {other}.", remedy)
    sides = basis.choose(before, after)
    first, second, matches = sides.first, sides.second, sides.matches
    outside = tuple(outside_steps.changed(before, after))
    means = None if sides.causes.mean else basis.otherwise(before, after)
    return Comparison(
        version=VERSION,
        before=side.of(names[0], before, first),
        after=side.of(names[1], after, second),
        causes=sides.causes,
        phases=_times(first.phases, second.phases),
        bounds=_times(first.bounds, second.bounds),
        modules=_modules(first, second, matches),
        operators=_named(first.operators, second.operators),
        kernels=_named(first.kernels, second.kernels),
        callers=_times(_callers(first), _callers(second)),
        counts=tuple(_counts(first, second)),
        memory=tuple(_memory(first, second)),
        outside=outside,
        differences=tuple(_differences(first, second)),
        notes=(
            *([] if means is None else [means]),
            *sampled.notes(sampled.of(before, after), names),
            *rank_work.slower(first, second),
            *map(outside_steps.sentence, outside),
            *_notes(first, second, matches, names),
        ),
    )


def _times(before: dict[str, int], after: dict[str, int]) -> tuple[Row, ...]:
    return _largest(_row(name, before.get(name), after.get(name), "ns") for name in dict.fromkeys([*before, *after]))


def _callers(run: Digest) -> dict[str, int]:
    found: dict[str, int] = {}
    for cell in run.cells:
        if cell.caller:
            found[cell.caller] = found.get(cell.caller, 0) + cell.ns
    return found


def _row(name: str, before: float | None, after: float | None, unit: str) -> Row:
    return Row(name, before, after, (after or 0) - (before or 0), unit)


def _largest(rows: Iterable[Row]) -> tuple[Row, ...]:
    return tuple(sorted(rows, key=lambda row: (-abs(row.difference), row.name)))


def _named(before: Sequence[Named], after: Sequence[Named]) -> tuple[NamedRow, ...]:
    first, second = by_name(before), by_name(after)
    rows = []
    for name in dict.fromkeys([*first, *second]):
        (one_ns, one_count), (other_ns, other_count) = (side.get(name, (None, 0.0)) for side in (first, second))
        rows.append(NamedRow(name, one_ns, other_ns, (other_ns or 0) - (one_ns or 0), one_count, other_count))
    return tuple(sorted(rows, key=lambda row: (-abs(row.difference_ns), row.name)))


def by_name(items: Sequence[Named]) -> dict[str, tuple[int, float]]:
    """Return name -> (ns per step, calls per step). Items of the same name are added up, even if their kinds differ.

    Args:
        items: operators or kernels of a digest.
    """
    found: dict[str, tuple[int, float]] = {}
    for item in items:
        ns, count = found.get(item.name, (0, 0.0))
        found[item.name] = ns + item.ns, round(count + item.count, 3)
    return found


def _modules(first: Digest, second: Digest, matches: Sequence[matching.Match]) -> tuple[ModuleRow, ...]:
    one, other = ({module.path: module for module in run.modules} for run in (first, second))
    rows = [_module(each, one.get(each.before or ""), other.get(each.after or "")) for each in matches]
    return tuple(sorted(rows, key=lambda row: (-abs(row.difference_ns), row.name)))


def _module(found: matching.Match, before: Module | None, after: Module | None) -> ModuleRow:
    def more(read: Callable[[Module], int]) -> int:
        return (read(after) if after else 0) - (read(before) if before else 0)

    return ModuleRow(
        name=found.after or found.before or "",
        was=found.before,
        matched=found.how,
        before_ns=before.total_ns if before else None,
        after_ns=after.total_ns if after else None,
        difference_ns=more(lambda module: module.total_ns),
        forward_ns=more(lambda module: module.forward_ns),
        backward_ns=more(lambda module: module.backward_ns),
        optimizer_ns=more(lambda module: module.optimizer_ns),
        self_ns=more(lambda module: module.self_ns),
    )


def _counts(first: Digest, second: Digest) -> Iterable[Row]:
    for name in (*counting.NAMES, *counting.OF_RUN):
        before, after = first.counts.get(name), second.counts.get(name)
        if before is not None and after is not None and before.value != after.value and not before.changed(after):
            continue
        if before is not None or after is not None:
            unit = "bytes" if name in counting.BYTES else ""
            yield _row(name, None if before is None else before.value, None if after is None else after.value, unit)


def _memory(first: Digest, second: Digest) -> Iterable[Row]:
    for name, word in _MEMORY.items():
        before, after = getattr(first.memory, name), getattr(second.memory, name)
        if before is not None or after is not None:
            yield _row(word, before, after, "bytes")


def _differences(first: Digest, second: Digest) -> Iterable[Difference]:
    for name, word in _DIFFERENCES.items():
        before, after = getattr(first.fingerprint, name), getattr(second.fingerprint, name)
        if before != after:
            yield Difference(word, _text(before), _text(after))


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value) or "unknown"


def _notes(first: Digest, second: Digest, matches: Sequence[matching.Match], names: tuple[str, str]) -> Iterable[str]:
    for name, run in zip(names, (first, second), strict=True):
        whole = run.completeness
        if whole.missing:
            ranks = "rank" if len(whole.missing) == 1 else "ranks"
            yield f"{name} lacks {ranks} {', '.join(map(str, whole.missing))}; the job has {whole.expected} ranks."
        if whole.dropped:
            yield f"{name} lacks {whole.dropped} records, which were dropped for lack of room."
        if whole.damaged:
            yield f"{name} lacks {whole.damaged} records or files that could not be read."
        if run.interrupted:
            share = f"{run.interrupted:.1%}".replace("%", " %")
            yield (
                f"Kernels of {name} took far longer than in other steps, {share} of the kernels' time: another program "
                "may have used the device. Times of kernels, and of modules by their kernels, leave out this time."
            )
        killed = sorted({end for end in whole.ended if end not in ("", "exit", "stopped")})
        if killed:
            yield f"A process of {name} did not end by itself: {', '.join(killed)}."
    kernels = [{item.name for item in run.kernels} for run in (first, second)]
    if all(kernels) and len(kernels[0] & kernels[1]) < KIN * min(map(len, kernels)):
        yield "The two runs have kernels of different names, as on different devices: compare modules and operators."
    others = [each for each in matches if each.how not in ("", matching.NAME)]
    if others:
        ways = sorted({each.how for each in others})
        yield f"{len(others)} modules have other names in the second run; they were matched by {', '.join(ways)}."
    if bool(first.modules) != bool(second.modules):
        yield f"{names[0 if second.modules else 1]} has no modules."
    if not first.modules and not second.modules:
        yield "Neither run has modules, so operators are compared. Another network then looks like another speed."
