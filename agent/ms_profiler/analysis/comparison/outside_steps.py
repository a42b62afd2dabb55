"""Compare the time of a run outside of its steps, such as evaluation and writing of checkpoints."""

from collections.abc import Iterator, Sequence
from statistics import fmean, median
from typing import Final

import polars as pl

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
}
#: a part changed clearly if its time per step changed by at least this share of the time per step of the training
LARGE: Final = 0.05
#: it must also have changed by more than this factor more, or less, than the median step, as a slower machine makes
#: everything slower
FACTOR: Final = 1.25


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


def changed(before: Sequence[Digest], after: Sequence[Digest]) -> Iterator[str]:
    """Yield a sentence for each part outside of the steps that clearly changed between two sides.

    A part counts with its time per step, because a longer run has more evaluations. Each run of the one side must have
    more than each run of the other side.

    Args:
        before: the digests of the first side's runs, at least one.
        after: the digests of the second side's runs, at least one.
    """
    speed = _step(after) / max(_step(before), 1)
    training = median(run.step.median_ns + sum(_per_step(run, name) for name in PARTS) for run in before)
    for name, title in PARTS.items():
        first, second = ([_per_step(run, name) for run in side] for side in (before, after))
        middle = median(first), median(second)
        apart = max(first) < min(second) or max(second) < min(first)
        if not apart or abs(middle[1] - middle[0]) < LARGE * training:
            continue
        ratio = middle[1] / middle[0] if middle[0] else float("inf")
        if any(1 / FACTOR <= each <= FACTOR for each in (ratio, ratio / speed)):
            continue
        yield _sentence(title, *(_typical(side, name) for side in (before, after)))


def _sentence(title: str, before: Outside, after: Outside) -> str:
    text = f"{title[0].upper()}{title[1:]}: {length(before.ns)} -> {length(after.ns)} a run"
    if before.count and after.count and title != PARTS[stretches.BETWEEN]:
        each = f"{length(before.ns / before.count)} -> {length(after.ns / after.count)} each time"
        counts = f"{before.count} times" if before.count == after.count else f"{before.count} -> {after.count} times"
        text += f" ({counts}, {each})"
    return f"{text}. This time is outside of the steps."


def _typical(side: Sequence[Digest], name: str) -> Outside:
    known = [run.outside.get(name, Outside(0, 0)) for run in side]
    return Outside(round(median(part.ns for part in known)), round(median(part.count for part in known)))


def _per_step(run: Digest, name: str) -> float:
    part = run.outside.get(name)
    return part.ns / max(run.step.total, 1) if part else 0.0


def _step(side: Sequence[Digest]) -> float:
    return float(median(run.step.median_ns for run in side))
