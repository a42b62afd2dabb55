"""Gate recorded runs of an old and a new version: read the runs, check that they are comparable, decide, explain."""

import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ms_profiler.analysis.comparison import (
    basis,
    causes,
    comparing,
    condensing,
    outside_steps,
    rank_work,
    recurrence,
    repeats,
    runs,
    sampled,
)
from ms_profiler.analysis.comparison.causes import Contributor
from ms_profiler.analysis.comparison.digest import Digest
from ms_profiler.analysis.comparison.sampled import Sampled
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.metrics.advice.base import length
from ms_profiler.errors import StoreError, UsageError
from ms_profiler.gate import baseline, comparable, decide, figures
from ms_profiler.gate.baseline import Baseline
from ms_profiler.gate.errors import IncompleteError
from ms_profiler.gate.figures import Kind
from ms_profiler.gate.verdicts import Decision, Rules, Verdict

#: An operator is listed if it runs at least this much more often in a step than before. A smaller difference may be
#: chance.
OFTEN: Final = 0.5


@dataclass(frozen=True)
class Gated:
    """The result of a gate.

    Attributes:
        decision: the verdict.
        base, new: the digests of the runs of the old and of the new version. For a stored baseline, `base` is the
            digest of its typical run. Both are empty if the runs cannot be compared.
    """

    decision: Decision
    base: Sequence[Digest] = ()
    new: Sequence[Digest] = ()

    def why(self) -> dict[str, Any] | None:
        """Return the parts of a step with their changes, whose sum is the change of the step time.

        The result is None if the runs cannot be compared.
        """
        if not self.base or not self.new:
            return None
        found = basis.causes(self.base, self.new)
        parts: dict[bool, list[Contributor]] = {False: [], True: []}
        contributors = found.contributors
        if self.decision.at_equal_speed:
            contributors = tuple(sorted(contributors, key=lambda each: (each.kind == causes.ALIKE, -each.change_ns)))
        for each in contributors:
            parts[each.kind == causes.UNEXPLAINED].append(each)
        return {
            "change_ms": _milliseconds(found.change_ns),
            "mean": found.mean,
            "sampled": found.sampled != Sampled.NONE.value,
            "contributors": [_contributor(each) for each in parts[False]],
            "unexplained_ms": _milliseconds(sum(each.change_ns for each in parts[True])),
            "more_of": _more_of(self.base, self.new),
        }


def read(paths: Sequence[str], say: Callable[[str], None] | None = None) -> list[Digest]:
    """Return the digest (key figures) of each run at some paths; a result that several paths name counts once.

    Args:
        paths: result directories, folders with several of them, or traces.
        say: called with a sentence about results that several paths name.

    Raises:
        StoreError: a path does not exist.
        IncompleteError: a path holds nothing that can be read.
    """
    found: list[Digest] = []
    known: dict[str, int] = {}
    for path in paths:
        try:
            results = engine.find([path])
            places = {os.path.realpath(result) for result in results}
            again = sorted(places & set(known))
            known |= dict.fromkeys(places, 1) | {place: known[place] + 1 for place in again}
            if len(again) < len(places):
                found += runs.digests(path, again)
        except StoreError as error:
            if not os.path.exists(path):
                raise
            raise IncompleteError(str(error.args[0]), error.remedy) from None
    for place, times in known.items():
        if say is not None and times > 1:
            say(f"{place} is named {times} times. It is one run, and counts once.")
    return found


def read_launched(places: Sequence[str]) -> list[Digest]:
    """Return the digest (key figures) of the run in each folder.

    Args:
        places: the folders of the runs of one version, as `launch.launch` returns them.

    Raises:
        IncompleteError: a command recorded nothing that can be read.
        UsageError: a command trained more than once.
    """
    found: list[Digest] = []
    for place in places:
        left = read([place])
        if len(left) > 1:
            raise UsageError(f"The command recorded {len(left)} runs.", "Gate one that trains once.")
        found += map(comparable.ended_well, left)
    return found


def gate(base: Sequence[Digest], new: Sequence[Digest], rules: Rules) -> Gated:
    """Gate runs of a new version against runs of an old one.

    Args:
        base: the runs of the old version, at least one.
        new: the runs of the new version, at least one.
        rules: the rules that decide whether a figure is worse.
    """
    if found := comparable.reasons(base, new):
        return Gated(decide.not_comparable(found, rules))
    reference = baseline.typical([*base])
    before, after = ([figures.of(run, reference) for run in side] for side in (base, new))
    own = (basis.by_mean(base, new), _left_out(base, new), _recorded(base, new))
    decision = decide.decide(before, after, rules, (), *own)
    return _explained(decision, base, new)


def gate_stored(stored: Baseline, new: Sequence[Digest], rules: Rules) -> Gated:
    """Gate runs of a new version against a stored baseline.

    The threshold must not be smaller than the noise of the baseline's runs allows.

    Args:
        stored: the baseline.
        new: the runs of the new version, at least one.
        rules: the rules that decide whether a figure is worse.

    Raises:
        UsageError: the threshold is too small for this noise.
    """
    if found := comparable.reasons([], new, stored.fingerprint):
        return Gated(decide.not_comparable(found, rules))
    after = [figures.of(run, stored.typical) for run in new]
    mean = basis.by_mean([stored.typical], new)
    # the baseline has the steps of its typical run only
    known = _left_out([stored.typical], new)
    left_out = f"at least {known}" if known and len(stored.runs) > 1 else known
    recorded = _recorded([stored.typical], new)
    decision = decide.decide(stored.runs, after, rules, stored.step_times, mean, left_out, recorded)
    return _explained(decision, [stored.typical], new)


def _recorded(base: Sequence[Digest], new: Sequence[Digest]) -> float | None:
    """Return the ratio new / base of the recorded steps if only some runs were sampled; None otherwise."""
    if not sampled.of(base, new).mixed:
        return None
    first, second = (statistics.median(sampled.recorded(run.step) for run in side) for side in (base, new))
    return second / max(first, 1)


def _left_out(base: Sequence[Digest], new: Sequence[Digest]) -> str:
    count = recurrence.left_out([*base, *new])
    return recurrence.single(count) if count else ""


def _explained(decision: Decision, base: Sequence[Digest], new: Sequence[Digest]) -> Gated:
    means = [one for one in decision.judged if one.metric.kind is Kind.MEAN and one.verdict is Verdict.REGRESSION]
    notes = [
        *([_long(base, new)] if means else []),
        *sampled.notes(sampled.of(base, new), ("the base", "the new version")),
        *rank_work.slower(repeats.typical(base), repeats.typical(new)),
        *map(outside_steps.sentence, outside_steps.changed(base, new)),
        *comparable.remarks(base[0].fingerprint, new[0].fingerprint),
    ]
    return Gated(decide.with_notes(decision, *notes), base, new)


def _long(base: Sequence[Digest], new: Sequence[Digest]) -> str:
    """Return a sentence about the long steps of both sides."""
    (before, _), (after, each) = (recurrence.far_longer(side) for side in (base, new))
    usual, steps = (statistics.median(getattr(run.step, name) for run in new) for name in ("median_ns", "count"))
    lengths = f": they take {length(each)}, and the median step {length(usual)}" if each else ""
    return (
        f"In a run of the new version, {after} of {steps:g} steps are long{lengths}. In a run of the base, {before} "
        f"are. A long step takes at least {recurrence.LONG:g} times as long as the median step."
    )


def _more_of(base: Sequence[Digest], new: Sequence[Digest]) -> list[dict[str, Any]]:
    """Return operators and kernels that run more often in a step of the new version, the largest difference first.

    A digest lists a limited number of operators. If it is full, it may lack some operators, and the result has no
    operators. The same holds for kernels.
    """
    found = []
    for field in ("operators", "kernels"):
        sides = [[comparing.by_name(getattr(run, field)) for run in side] for side in (base, new)]
        if any(len(getattr(run, field)) >= condensing.MOST for side in (base, new) for run in side):
            continue
        for name in {name for run in sides[1] for name in run}:
            before, after = (statistics.median(run.get(name, (0, 0.0))[1] for run in side) for side in sides)
            if after - before >= OFTEN:
                found.append({"name": name, "before": before, "after": after})
    return sorted(found, key=lambda each: (each["before"] - each["after"], each["name"]))


def _contributor(each: Contributor) -> dict[str, Any]:
    return {
        "what": each.name,
        "kind": each.kind,
        "module": each.module,
        "before_ms": None if each.before_ns is None else _milliseconds(each.before_ns),
        "after_ms": None if each.after_ns is None else _milliseconds(each.after_ns),
        "change_ms": _milliseconds(each.change_ns),
        "share": round(each.share, 4),
        "told": each.told,
        "advice": each.evidence,
    }


def _milliseconds(nanoseconds: int) -> float:
    return round(nanoseconds / 1e6, 6)
