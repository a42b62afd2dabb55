"""Explain why the steps of two runs differ, by contributors that add up to the change.

`moments` divides the time of a step into cells, such as the time of one operator in one module. The differences of the
cells add up to the change. A contributor combines cells that belong together: waits of one kind, or the work of the
innermost module that has most of the change. If everything takes longer by the same factor, the cause is the machine,
or something else on which the whole job depends. This common factor is a contributor of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from ms_profiler.analysis.comparison import evidence, hidden_waits, matching
from ms_profiler.analysis.comparison.digest import Cell, Digest
from ms_profiler.analysis.comparison.module_changes import Tree
from ms_profiler.analysis.comparison.moments import DEVICE, INTERRUPTED
from ms_profiler.analysis.comparison.sampled import Sampled, recorded
from ms_profiler.analysis.metrics import bounds, common_factor, critical_path
from ms_profiler.analysis.metrics.handed_over import PASSED

MODULE: Final = "module"
OUTSIDE: Final = "outside"
KERNEL: Final = "kernel"
ALIKE: Final = "alike"
SMALL: Final = "small differences"
UNEXPLAINED: Final = "unexplained"
#: kinds of contributors (parts of the change of the step time) that come from the machine and not from the job
MACHINE: Final = (ALIKE, bounds.RUNNABLE, INTERRUPTED)
#: a contributor with the change x is shown if x >= `SHOWN` * change of the step, and if
#: x >= max(`LEAST`, min(spread, `MOST`)) * step of the first run. The spread is the usual variation of steps
SHOWN: Final = 0.1
LEAST: Final = 0.01
MOST: Final = 0.05
#: a change is remarkable if it is larger than this share of the step, and larger than the usual variation of steps
REMARKABLE: Final = 0.05
#: parts of a step whose cells form one contributor for each part, whatever module they are in
_WAITS: Final = (bounds.DATA, bounds.COMPILE, bounds.CHECKPOINT, bounds.GARBAGE, bounds.RUNNABLE)
_OF_DEVICE: Final = (critical_path.COPY, critical_path.GAP)

_Key = tuple[str, str]


@dataclass(frozen=True)
class Contributor:
    """A part of the change of the step time, such as the work of one module.

    Attributes:
        kind: a part of `metrics.bounds`, or "module", "outside", "kernel", "alike", "small differences", "unexplained",
            "kernels that took far longer than in other steps".
        name: the name for people.
        module: path of its module in the second run; if the module is gone, in the first run. Empty without a module.
        was: the path of the module in the first run if it differs from `module`; otherwise empty.
        before_ns: ns per step in the first run; None for the common factor, which has no time of its own.
        after_ns: ns per step in the second run; None for the common factor.
        change_ns: the change, ns per step, without the change by the common factor.
        share: `change_ns` as a share of the change of the step time; 0 if the step time did not change.
        evidence: the evidence for the contributor, in words with numbers.
        told: whether the contributor is large enough to be shown.
    """

    kind: str
    name: str
    module: str
    was: str
    before_ns: int | None
    after_ns: int | None
    change_ns: int
    share: float
    evidence: str
    told: bool


@dataclass(frozen=True)
class Causes:
    """The reasons why step times differ between two runs.

    Attributes:
        before_ns: the step of the first run, in ns: its median step, or its mean step if `mean` is true.
        after_ns: the step of the second run, in ns.
        spread: the usual variation of steps, as a share of the step.
        remarkable: whether the change of the step, or a contributor other than the machine, is larger than both
            `spread` and `REMARKABLE`.
        factor: the common factor by which all computing changed; 1 if there is none.
        contributors: the contributors, the largest change first. Their changes add up to the change of the step
            exactly, and their times to the step of each run. The last two are the small differences and the
            unexplained rest.
        mean: whether mean steps are compared (`basis`), and not median steps.
        sampled: which runs were sampled, as a value of `sampled.Sampled`. In sampled runs, the contributors are those
            of sampled steps. They are told only if these steps changed about as much as the others.
    """

    before_ns: int
    after_ns: int
    spread: float
    remarkable: bool
    factor: float
    contributors: tuple[Contributor, ...]
    mean: bool = False
    sampled: str = Sampled.NONE.value

    @property
    def change_ns(self) -> int:
        """Return the change of the step time, ns."""
        return self.after_ns - self.before_ns

    @property
    def told(self) -> list[Contributor]:
        """Return the contributors that are large enough to be shown, the cause first."""
        return [each for each in self.contributors if each.told]


def between(
    first: Digest,
    second: Digest,
    matches: Sequence[matching.Match],
    spread: float,
    sampled: Sampled = Sampled.NONE,
) -> Causes:
    """Return the reasons why the step time differs between two runs.

    Args:
        first: the run before.
        second: the run after.
        matches: the modules of both runs, from `matching.match`.
        spread: the usual variation of steps, as a share of the step.
        sampled: which runs were sampled.
    """
    was = {each.after: each.before for each in matches if each.before is not None and each.after is not None}
    now = {before: after for after, before in was.items()}
    pairs = _Pairs(*hidden_waits.apart(first, second), now)
    factor = pairs.factor()
    change = second.step.median_ns - first.step.median_ns
    explained = sampled.explained(change, second.told_ns - first.told_ns)
    floor = max(LEAST, min(spread, MOST)) * first.step.median_ns
    found = [*pairs.waits(), *pairs.modules(factor, max(SHOWN * abs(change), floor))]
    if factor != 1:
        found.append(pairs.alike(factor, spread))
    known = [
        replace(
            each,
            was=was.get(each.module) or "" if was.get(each.module) != each.module else "",
            share=each.change_ns / change if change else 0.0,
            told=explained and each.kind != SMALL and abs(each.change_ns) >= max(SHOWN * abs(change), floor, 1),
        )
        for each in found
    ]
    shown = sorted((each for each in known if each.told), key=lambda each: (-toward(each, change), each.name))
    small = [each for each in known if not each.told]
    rest = change - sum(each.change_ns for each in known)
    ends = (_sum(SMALL, small, change), _rest(first, second, rest, change))
    large = max(REMARKABLE, spread) * first.step.median_ns
    seen = recorded(second.step) - recorded(first.step)
    remarkable = abs(change) > large and (not sampled.mixed or (abs(seen) > large and seen * change > 0))
    if sampled is Sampled.NONE:
        remarkable |= any(abs(each.change_ns) > large for each in shown if each.kind not in MACHINE)
    steps = (first.step.median_ns, second.step.median_ns)
    return Causes(*steps, spread, remarkable, factor, (*shown, *ends), sampled=sampled.value)


def step_at_speed_of(reference: Digest, run: Digest) -> float | None:
    """Return the median step, in ns, that a run would have at the speed of another run.

    Args:
        reference: the run whose speed counts.
        run: a run of the same or nearly the same job.

    Returns:
        The median step with its computing divided by the common factor; None if there are too few modules for a factor,
        or if a run was sampled. The computing of sampled steps contains the cost of recording.
    """
    if reference.step.sampled or run.step.sampled:
        return None
    matches = matching.match(reference, run)
    now = {each.before: each.after for each in matches if each.before is not None and each.after is not None}
    pairs = _Pairs(reference, run, now)
    if not pairs.has_factor():
        return None
    return run.step.median_ns - pairs.computing_ns() * (1 - 1 / pairs.factor())


def toward(each: Contributor, change: int) -> int:
    """Return by how much a contributor changes the step in the direction of the whole change, in ns.

    Args:
        each: the contributor.
        change: the change of the step time, in ns.
    """
    return each.change_ns if change >= 0 else -each.change_ns


def _sum(name: str, small: Sequence[Contributor], change: int) -> Contributor:
    before, after, more = (
        sum(getattr(each, field) or 0 for each in small) for field in ("before_ns", "after_ns", "change_ns")
    )
    different = sum(each.change_ns != 0 for each in small)
    count = f"{different} of them" if different else ""
    return Contributor(name, name, "", "", before, after, more, more / change if change else 0.0, count, False)


def _rest(first: Digest, second: Digest, rest: int, change: int) -> Contributor:
    before, after = first.step.median_ns - first.told_ns, second.step.median_ns - second.told_ns
    why = "difference between the step and the steps whose parts are known" if rest else ""
    share = rest / change if change else 0.0
    return Contributor(UNEXPLAINED, UNEXPLAINED, "", "", before, after, rest, share, why, False)


class _Pairs:
    """The cells (parts of the step time) of two runs, side by side, grouped by contributor.

    Args:
        first: the run before.
        second: the run after.
        now: path in the first run -> path in the second run, for each module of both.
    """

    def __init__(self, first: Digest, second: Digest, now: dict[str, str]) -> None:
        self.first, self.second = first, second
        self.cells: dict[_Key, tuple[list[Cell], list[Cell]]] = {}
        for side, run in enumerate((first, second)):
            for cell in run.cells:
                known = replace(cell, module=now.get(cell.module, cell.module)) if side == 0 else cell
                self.cells.setdefault(_key(known), ([], []))[side].append(known)
        self.ns = {key: (_total(before), _total(after)) for key, (before, after) in self.cells.items()}

    def has_factor(self) -> bool:
        """Return whether the two runs have enough modules to compute a common factor of their times."""
        return len(self._ratios) >= common_factor.AGREEING

    def factor(self) -> float:
        """Return the factor by which all computing changed; 1 if it did not change, or not by a common factor."""
        return common_factor.factor(self._ratios)

    @cached_property
    def _ratios(self) -> list[common_factor.Ratio]:
        """Return the modules that take enough of a step to count towards the common factor."""
        least = common_factor.ASKED * self.first.told_ns
        return [
            (after / before, before)
            for (kind, _), (before, after) in self.ns.items()
            if kind in (MODULE, OUTSIDE, KERNEL) and before >= max(least, 1) and after > 0
        ]

    def computing_ns(self) -> int:
        """Return the computing time of a step of the second run, ns."""
        return sum(after for (kind, _), (_, after) in self.ns.items() if kind in (MODULE, OUTSIDE, KERNEL))

    def alike(self, factor: float, spread: float) -> Contributor:
        """Return the contributor for the change by the common factor.

        Args:
            factor: the common factor.
            spread: the usual variation of steps, as a share of the step.
        """
        found = [before for (kind, _), (before, _) in self.ns.items() if kind in (MODULE, OUTSIDE, KERNEL)]
        more = sum(round(before * factor) - before for before in found)
        name = f"everything alike, by a factor of {common_factor.worded(factor, spread)}"
        reason = evidence.machine(self.first, self.second)
        return Contributor(ALIKE, name, "", "", None, None, more, 0.0, reason, False)

    def waits(self) -> list[Contributor]:
        """Return the contributors that are waits."""
        found = []
        for key, (before, after) in self.ns.items():
            kind, name = key
            if kind in (MODULE, OUTSIDE, KERNEL):
                continue
            reason = evidence.of_wait(kind, self.first, self.second, *self.cells[key])
            title = evidence.TITLES.get(kind, kind) + (f": {name}" if name else "")
            module = name if kind == bounds.SYNC else ""
            found.append(Contributor(kind, title, module, "", before, after, after - before, 0.0, reason, False))
        return found

    def modules(self, factor: float, least: float) -> list[Contributor]:
        """Return the contributors for changes of modules, and of code outside of modules, beyond the common factor.

        Args:
            factor: the common factor by which all computing changed, from the method `factor`.
            least: smallest change that is shown, in ns.
        """
        more = {
            key: after - round(before * factor)
            for key, (before, after) in self.ns.items()
            if key[0] in (MODULE, OUTSIDE, KERNEL)
        }
        if factor != 1:
            # small deviations from the common factor are noise; they must not appear as a cause
            apart = common_factor.noise(self._ratios, factor)
            # the limit of noise is a share of min(expected time, real time), as no drop can exceed the expected time
            more = {
                key: each if abs(each) >= apart * min(self.ns[key][0] * factor, self.ns[key][1]) else 0
                for key, each in more.items()
            }
        found = [self._contributor(kind, name, [(kind, name)], more) for kind, name in more if kind != MODULE]
        tree = Tree({name: each for (kind, name), each in more.items() if kind == MODULE})
        for path, inside in tree.explained(least):
            found.append(self._contributor(MODULE, path, [(MODULE, name) for name in inside], more))
        if factor != 1:
            noise = [self.ns[key][1] - round(self.ns[key][0] * factor) - each for key, each in more.items()]
            name, count = "deviations from that factor", f"{sum(each != 0 for each in noise)} parts"
            found.append(Contributor(SMALL, name, "", "", None, None, sum(noise), 0.0, count, False))
        return found

    def _contributor(self, kind: str, name: str, keys: list[_Key], more: dict[_Key, int]) -> Contributor:
        before, after = (sum(self.ns[key][side] for key in keys) for side in (0, 1))
        cells = tuple([cell for key in keys for cell in self.cells[key][side]] for side in (0, 1))
        reason = evidence.of_work(self.first, self.second, *cells)
        title = evidence.title(kind, name, self.first, self.second, *cells)
        change = sum(more[key] for key in keys)
        module = name if kind == MODULE else ""
        return Contributor(kind, title, module, "", before, after, change, 0.0, reason, False)


def _key(cell: Cell) -> _Key:
    """Return the kind and the name of the contributor to which a cell (part of the step time) belongs."""
    if cell.part in _WAITS or cell.part in _OF_DEVICE:
        return cell.part, ""
    if cell.what == INTERRUPTED:
        return INTERRUPTED, ""
    # on a CPU, an exchange is an operator, so only the operator's name shows that it is an exchange
    if cell.part == bounds.COMMUNICATION or cell.what.startswith(PASSED):
        return bounds.COMMUNICATION, ""
    if cell.part == bounds.SYNC:
        return cell.part, cell.module
    if cell.phase == DEVICE and cell.part != bounds.COMPUTING:
        return cell.part, ""
    if cell.module:
        return MODULE, cell.module
    if cell.phase == DEVICE:
        return KERNEL, cell.caller or cell.what
    return OUTSIDE, cell.phase


def _total(cells: Sequence[Cell]) -> int:
    return sum(cell.ns for cell in cells)
