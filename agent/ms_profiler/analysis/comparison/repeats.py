"""Combine several runs of one job: their typical digest, and the usual variation of their steps."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median

from ms_profiler.analysis.comparison import recurrence, sampled
from ms_profiler.analysis.comparison.digest import Count, Digest
from ms_profiler.analysis.comparison.runs import merge


def typical(runs: Sequence[Digest]) -> Digest:
    """Return a digest that stands for several runs of one job.

    Its step time is the median of the runs' step times. Its cells (parts of the step time) are means over the half of
    the runs whose step times are in the middle. So a disturbed run has little influence.

    Args:
        runs: the digests of the runs, at least one.
    """
    if len(runs) == 1:
        return runs[0]
    ordered = sorted(runs, key=lambda run: run.step.median_ns)
    edge = len(ordered) // 4
    middle = ordered[edge : len(ordered) - edge]
    whole = merge(middle)
    seen = any(run.step.sampled for run in runs)
    step = replace(
        whole.step,
        median_ns=round(median(run.step.median_ns for run in runs)),
        first_ns=_median([run.step.first_ns for run in runs]),
        own_first_ns=_median([run.step.own_first_ns for run in runs]),
        sampled=min(run.step.sampled for run in runs),
        recorded_ns=round(median(sampled.recorded(run.step) for run in runs)) if seen else 0,
        mean_ns=round(median(run.step.mean_ns for run in runs)) if all(run.step.mean_ns for run in runs) else 0,
        durations_ns=ordered[len(ordered) // 2].step.durations_ns,
        long_sampled_ns=ordered[len(ordered) // 2].step.long_sampled_ns,
        count=min(run.step.count for run in runs),
    )
    memory = replace(
        whole.memory,
        **{name: _median([getattr(run.memory, name) for run in runs]) for name in ("host", "device", "allocated")},
    )
    every = [run.completeness for run in runs]
    completeness = replace(
        every[0],
        present=tuple(sorted(set.intersection(*(set(each.present) for each in every)))),
        dropped=sum(each.dropped for each in every),
        damaged=sum(each.damaged for each in every),
        ended=tuple(end for each in every for end in each.ended),
    )
    return replace(
        whole, step=step, memory=memory, counts=_counts(runs), completeness=completeness, advice=middle[-1].advice
    )


def spread(runs: Sequence[Digest], mean: bool = False) -> float:
    """Return the usual variation of step times, as a share of the step: (max(m) - min(m)) / 2 / median(m).

    If there are several runs, m are their median steps. If there is one run, its steps are divided into blocks
    (`recurrence.blocks`), and m are the medians of the blocks. The result for one run is less certain.

    Args:
        runs: the digests of the runs of one job.
        mean: whether m are means instead of medians.
    """
    values: list[float] = [run.step.mean_ns if mean else run.step.median_ns for run in runs]
    if len(runs) == 1:
        durations = list(runs[0].step.durations_ns)
        chosen = recurrence.kept(durations, durations) if mean else durations
        values = [fmean(block) if mean else median(block) for block in recurrence.blocks(chosen)]
    if not values:
        return 0.0
    return (max(values) - min(values)) / 2 / max(median(values), 1)


def _median(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return round(median(known)) if known else None


def _counts(runs: Sequence[Digest]) -> dict[str, Count]:
    found = {}
    for name in dict.fromkeys(name for run in runs for name in run.counts):
        known = [run.counts[name] for run in runs if name in run.counts]
        found[name] = Count(
            median(count.value for count in known),
            min(count.least for count in known),
            max(count.most for count in known),
            known[0].per,
        )
    return found
