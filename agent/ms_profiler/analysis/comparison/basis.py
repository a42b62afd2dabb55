"""Choose whether two runs are compared by their median steps or by their mean steps.

The median step is the usual answer, because disturbed steps do not move it. But work that recurs only in some steps
does not move it either. So the mean steps are compared if three conditions hold: their difference is another one than
that of the median steps, long steps recur through a whole run, and known work of the job makes up the difference. Waits
for a processor, and a slower machine, are no work of the job. Exchanges are none either: they contain waits for
other ranks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from ms_profiler.analysis.comparison import matching, recurrence, repeats, sampled
from ms_profiler.analysis.comparison.causes import MACHINE, REMARKABLE, Causes, between
from ms_profiler.analysis.comparison.digest import Digest
from ms_profiler.analysis.comparison.runs import averaged
from ms_profiler.analysis.metrics import bounds
from ms_profiler.analysis.metrics.advice.base import length

#: the difference of the mean steps is another one if it is this share larger or smaller than that of the median steps
OTHER: Final = 0.25
#: known work of the job must make up at least this share of what the difference of the mean steps has in addition,
#: divided by the number of ranks
KNOWN: Final = 0.5


@dataclass(frozen=True)
class Sides:
    """The two sides of a comparison, and the causes of their difference.

    Attributes:
        first: the digest that stands for the runs of the first side.
        second: the digest that stands for the runs of the second side.
        matches: the modules of both sides.
        causes: the causes of the difference between the steps of `first` and `second`.
    """

    first: Digest
    second: Digest
    matches: list[matching.Match]
    causes: Causes


def causes(before: Sequence[Digest], after: Sequence[Digest]) -> Causes:
    """Return the reasons why the step time differs between two sets of runs.

    Args:
        before: the first set: runs of one job.
        after: the second set: runs of another job or version.
    """
    return choose(before, after).causes


def choose(before: Sequence[Digest], after: Sequence[Digest]) -> Sides:
    """Return the two sides of a comparison, by their median steps or by their mean steps.

    Args:
        before: the digests of the first side's runs, at least one.
        after: the digests of the second side's runs, at least one.
    """
    found = _means(before, after)
    if found is not None:
        return found
    spread = max(repeats.spread(before), repeats.spread(after))
    return _sides(repeats.typical(before), repeats.typical(after), spread, sampled.of(before, after))


def by_mean(before: Sequence[Digest], after: Sequence[Digest]) -> bool:
    """Return whether `choose` compares mean steps, because work that recurs in some steps changed.

    Args:
        before: the digests of the first side's runs, at least one.
        after: the digests of the second side's runs, at least one.
    """
    return _means(before, after) is not None


def otherwise(before: Sequence[Digest], after: Sequence[Digest]) -> str | None:
    """Return a sentence about mean steps of sampled runs that changed otherwise than their median steps.

    It belongs to a comparison of median steps. The result is None if the mean steps did not, or if no run was sampled.

    Args:
        before: the digests of the first side's runs, at least one.
        after: the digests of the second side's runs, at least one.
    """
    if sampled.of(before, after) is sampled.Sampled.NONE or _more(before, after) is None:
        return None
    first, second = (_middle(side, "mean_ns") for side in (before, after))
    return (
        f"On average, steps without the cost of recording take {length(first)} -> {length(second)} "
        f"({100 * (second / first - 1):+.1f} %): some steps throughout a run take far longer than the median step, and "
        "the sampled steps do not tell why."
    )


def _more(before: Sequence[Digest], after: Sequence[Digest]) -> float | None:
    """Return by how much more mean steps changed than median steps, ns; None if the median steps tell the change."""
    if not all(run.step.mean_ns for run in (*before, *after)):
        return None
    medians, means = ([_middle(side, name) for side in (before, after)] for name in ("median_ns", "mean_ns"))
    change = medians[1] - medians[0]
    more = means[1] - means[0] - change
    large = abs(more) > max(OTHER * abs(change), REMARKABLE * medians[0])
    return more if large and recurrence.recurs(before, after, more) else None


def _means(before: Sequence[Digest], after: Sequence[Digest]) -> Sides | None:
    """Return the two sides by their mean steps; None if the median steps are to be compared."""
    more = _more(before, after)
    if more is None:
        return None
    spread = max(repeats.spread(before, mean=True), repeats.spread(after, mean=True))
    kind = sampled.of(before, after)
    found = _sides(averaged(repeats.typical(before)), averaged(repeats.typical(after)), spread, kind)
    work = sum(each.change_ns for each in found.causes.told if each.kind not in (*MACHINE, bounds.COMMUNICATION))
    # if one rank has the work, all ranks have longer steps, and the mean over the ranks has the work only once
    ranks = len(found.second.completeness.present)
    if not found.causes.remarkable or work * more < 0 or abs(work) < KNOWN * abs(more) / ranks:
        return None
    return replace(found, causes=replace(found.causes, mean=True))


def _middle(side: Sequence[Digest], name: str) -> float:
    return float(median(getattr(run.step, name) for run in side))


def _sides(first: Digest, second: Digest, spread: float, kind: sampled.Sampled) -> Sides:
    matches = matching.match(first, second)
    return Sides(first, second, matches, between(first, second, matches, spread, kind))
