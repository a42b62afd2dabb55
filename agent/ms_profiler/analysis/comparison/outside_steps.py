"""Compare the time of a run outside of its usual steps, such as evaluation, checkpoints and single long steps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

import polars as pl

from ms_profiler.analysis.comparison import recurrence
from ms_profiler.analysis.comparison.digest import Digest, Outside
from ms_profiler.analysis.metrics import stretches
from ms_profiler.analysis.metrics.advice.base import length
from ms_profiler.analysis.metrics.measures import Measures

#: the parts of a run that are compared: name of the part in `stretches` -> name for people
PARTS: Final = {
    stretches.EVALUATION: "evaluation",
    "rollout": "rollouts",
    "checkpoint": "checkpoints between steps",
    "compile": "compiling between steps",
    stretches.NETWORK: "network calls outside of steps",
    stretches.BETWEEN: "other code between steps",
    stretches.AFTER: "after the last step",
}
#: the parts that lie between steps, or between other parts of the training
_TRAINING: Final = tuple(name for name in PARTS if name != stretches.AFTER)
#: the parts whose intervals are no work of one kind, so their number says nothing
_OTHER_CODE: Final = (PARTS[stretches.BETWEEN], PARTS[stretches.AFTER])
#: the time by which single long steps (`recurrence.singles`) are longer than the median step counts like a part
LONG: Final = "single long steps"
#: a part changed clearly if its time per step changed by at least this share of the time per step of the training
LARGE: Final = 0.05
#: it must also have changed by more than this factor more, or less, than the median step, as a slower machine makes
#: everything slower
FACTOR: Final = 1.25
#: parts together are remarkable if their times per step changed by at least this share of that of the training
MUCH: Final = 0.1
#: the time after the last step must have changed by at least this many ns, as the end of a process varies
LEAST_AFTER: Final = 100_000_000
#: the number of single long steps must have changed by at least this, as the machine may disturb a step
LEAST_LONG: Final = 2


@dataclass(frozen=True)
class Change:
    """A time of a run outside of its usual steps that clearly changed.

    Attributes:
        part: the part of the run, for people.
        before: its time in a run of the first side.
        after: its time in a run of the second side.
        share: the change of the time per step, as a share of the time per step of the training.
    """

    part: str
    before: Outside
    after: Outside
    share: float


def parts(measures: Measures) -> dict[str, Outside]:
    """Return the time of each part of a run outside of its steps; empty for another tool's result.

    Args:
        measures: the measures of one result.
    """
    if measures.recording.foreign:
        return {}
    own = stretches.parts(measures.stretches.filter(pl.col("process") == measures.steps.process))
    length_ns = pl.col("end_ns") - pl.col("start_ns")
    known = own.filter(pl.col("part").is_in(list(PARTS)))
    summed = known.group_by("part").agg(length_ns.sum().alias("ns"), pl.len().alias("count")).sort("part")
    return {part: Outside(int(ns), int(count)) for part, ns, count in summed.iter_rows()}


def mean(each: Sequence[dict[str, Outside]]) -> dict[str, Outside]:
    """Return the parts of a launch: the mean time over its ranks, and the largest number of intervals.

    Args:
        each: the parts of each rank.
    """
    found = {}
    for name in PARTS:
        known = [parts.get(name, Outside(0, 0)) for parts in each]
        if any(part.count for part in known):
            found[name] = Outside(round(fmean(part.ns for part in known)), max(part.count for part in known))
    return found


def changed(before: Sequence[Digest], after: Sequence[Digest]) -> Iterator[Change]:
    """Yield the times outside of the usual steps that clearly changed between two sides.

    A part counts with its time per step, because a longer run has more evaluations. Only the time after the last step
    does not depend on the number of steps. Each run of the one side must have more than each run of the other side.

    Args:
        before: the digests of the first side's runs, at least one.
        after: the digests of the second side's runs, at least one.
    """
    limit = max(recurrence.limit(run.step.durations_ns) for run in (*before, *after))
    speed = _step(after) / max(_step(before), 1)
    usual = median(run.step.total for run in before)
    training = median(run.step.median_ns + sum(_per_step(run, name, limit) for name in _TRAINING) for run in before)
    for name, title in (*PARTS.items(), (LONG, LONG)):
        # a stored baseline may be older than this part, and the end of a process takes some time in each run
        if name == stretches.AFTER and not all(name in run.outside for run in (*before, *after)):
            continue
        steps = usual if name == stretches.AFTER else None
        first, second = ([_per_step(run, name, limit, steps) for run in side] for side in (before, after))
        middle = median(first), median(second)
        apart = max(first) < min(second) or max(second) < min(first)
        if not apart or abs(middle[1] - middle[0]) < LARGE * training:
            continue
        ratio = middle[1] / middle[0] if middle[0] else float("inf")
        if any(1 / FACTOR <= each <= FACTOR for each in (ratio, ratio / speed)):
            continue
        old, new = (_typical([_part(run, name, limit) for run in side]) for side in (before, after))
        if name == stretches.AFTER and abs(new.ns - old.ns) < LEAST_AFTER:
            continue
        if name == LONG and abs(new.count - old.count) < LEAST_LONG:
            continue
        yield Change(title, old, new, (middle[1] - middle[0]) / training)


def sentence(change: Change) -> str:
    """Return a line about a time outside of the usual steps that clearly changed.

    Args:
        change: the change, from `changed`.
    """
    title, before, after = change.part, change.before, change.after
    text = f"{title[0].upper()}{title[1:]}: {length(before.ns)} -> {length(after.ns)} a run"
    if title == LONG:
        return (
            f"{text} beyond the usual step ({before.count} -> {after.count} steps). The median step and the mean step "
            "leave out this time."
        )
    if before.count and after.count and title not in _OTHER_CODE:
        each = f"{length(before.ns / before.count)} -> {length(after.ns / after.count)} each time"
        counts = f"{before.count} times" if before.count == after.count else f"{before.count} -> {after.count} times"
        text += f" ({counts}, {each})"
    return f"{text}. This time is outside of the steps."


def _part(run: Digest, name: str, limit: float) -> Outside:
    """Return the time of a part of a run.

    Args:
        run: the digest of the run.
        name: the part: a key of `PARTS`, or `LONG`.
        limit: the duration, in ns, beyond which a step is long. It is the same for all compared runs. Where long steps
            recur in one run, they belong to its mean step, and are not single in the others either.
    """
    if name != LONG:
        return run.outside.get(name, Outside(0, 0))
    long = [duration for duration in recurrence.singles(run.step) if duration > limit]
    return Outside(sum(duration - run.step.median_ns for duration in long), len(long))


def _per_step(run: Digest, name: str, limit: float, steps: float | None = None) -> float:
    """Return the time of a part of a run in ns per step: divided by `steps`, or else by the steps of the run."""
    return _part(run, name, limit).ns / max(steps or run.step.total, 1)


def _typical(side: Sequence[Outside]) -> Outside:
    return Outside(round(median(part.ns for part in side)), round(median(part.count for part in side)))


def _step(side: Sequence[Digest]) -> float:
    return float(median(run.step.median_ns for run in side))
