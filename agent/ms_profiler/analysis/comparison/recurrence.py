"""Decide whether long steps recur through a run, or are single disturbed steps.

A job may do something in every tenth step only, such as writing a histogram. The median step does not have this work,
but the mean step has it. One long step also moves the mean step, but says nothing about the job. So the steps of a run
are divided into blocks of consecutive steps. Work that recurs is in every block.
"""

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, median
from typing import Final, TypeVar

from ms_profiler.analysis.comparison.digest import Digest
from ms_profiler.analysis.comparison.step_time import StepTime

#: number of blocks into which the steps of one run are divided
BLOCKS: Final = 5
#: a step is left out if it takes more than this number of times as long as the longest step of a usual block
FAR: Final = 3
#: a step is called long if it takes at least this number of times as long as the median step
LONG: Final = 1.5
#: the mean step has parts of its own if it differs from the median step by more than this share of the median step
APART: Final = 0.02
#: long steps recur more in one run than in the other one if, of all pairs of a block (or a run) of each, more than this
#: share have the larger excess on the side of the first one
SURE: Final = 0.95
#: a run shows whether long steps recur if its blocks have at least this number of steps
FEWEST: Final = 3
#: The part of the difference that waits must make up if they show alone that long steps recur. Single long steps of one
#: side may be at most this part of the long steps of the other side, as shares of all steps
MUCH: Final = 0.5

_Item = TypeVar("_Item")


def blocks(items: Sequence[_Item]) -> list[Sequence[_Item]]:
    """Return consecutive blocks of equal length; a rest that fills no block is left out.

    Args:
        items: something about each step of a run, in the order of the steps.
    """
    size = max(len(items) // BLOCKS, 1)
    return [items[start : start + size] for start in range(0, len(items) - size + 1, size)]


def limit(durations: Sequence[int]) -> float:
    """Return the duration, in ns, beyond which a step is much longer than the longest step of a usual block.

    Args:
        durations: the durations of the steps of a run, in ns, in order.
    """
    return FAR * median(map(max, blocks(durations))) if durations else 0


def kept(items: Sequence[_Item], durations: Sequence[int]) -> list[_Item]:
    """Return the items of all steps, except for steps that are much longer than the longest step of a usual block.

    Args:
        items: something about each step of a run, in the order of the steps.
        durations: the durations of these steps, in ns.
    """
    most = limit(durations)
    return [item for item, duration in zip(items, durations, strict=True) if duration <= most]


def beyond(durations: Sequence[int]) -> list[int]:
    """Return the durations of the steps that `kept` leaves out, in ns.

    Args:
        durations: the durations of the steps of a run, in order.
    """
    most = limit(durations)
    return [duration for duration in durations if duration > most]


def mean(durations: Sequence[int]) -> int:
    """Return the mean of the steps that `kept` returns, in ns; 0 without steps.

    Args:
        durations: the durations of the steady steps of a run, in order.
    """
    return round(fmean(kept(durations, durations))) if durations else 0


def singles(step: StepTime) -> list[int]:
    """Return the durations of the single long steps of a run, which its mean step leaves out, in ns.

    Args:
        step: the step times of the run.
    """
    return [*beyond(step.durations_ns), *step.long_sampled_ns]


def whole_mean(step: StepTime) -> float:
    """Return the mean step of a run with its single long steps, in ns.

    Args:
        step: the step times of the run, with their mean.
    """
    rest = step.count - len(beyond(step.durations_ns))
    long = singles(step)
    return (step.mean_ns * rest + sum(long)) / max(rest + len(long), 1)


def far_longer(side: Sequence[Digest]) -> tuple[int, float]:
    """Return the number of long steps of a typical run, and their median duration in ns; 0 without long steps.

    Args:
        side: the digests of some runs, at least one.
    """
    long = [[ns for ns in run.step.durations_ns if ns > LONG * run.step.median_ns] for run in side]
    known = [ns for each in long for ns in each]
    return round(median(map(len, long))), median(known) if known else 0.0


def left_out(side: Sequence[Digest]) -> int:
    """Return the number of single long steps of some runs, which their mean steps leave out.

    Args:
        side: the digests of the runs.
    """
    return sum(len(singles(run.step)) for run in side)


def single(count: int) -> str:
    """Return words for a number of steps that a mean step leaves out.

    Args:
        count: the number of steps.
    """
    return f"{count} single long step{'s' * (count != 1)}"


def apart(median_ns: float, mean_ns: float) -> bool:
    """Return whether a mean step differs from the median step so much that it has parts of its own."""
    return abs(mean_ns - median_ns) > APART * median_ns


def recurs(before: Sequence[Digest], after: Sequence[Digest], more: float) -> bool:
    """Return whether the excess of the mean step over the median step surely differs between two sets of runs.

    The excess is compared block by block. If both sides have at least `BLOCKS` runs, it is compared run by run. On a
    busy machine, the excess varies much. So it is also enough if the time of waits for data or of checkpoints, which
    is known in all steps, surely differs block by block, and makes up at least the part `MUCH` of `more`.

    Args:
        before: the first set: runs of one job.
        after: the second set: runs of another job or version.
        more: by how much more the mean steps changed than the median steps, ns; not 0.
    """
    if min(len(run.step.durations_ns) for run in (*before, *after)) < BLOCKS * FEWEST:
        return False
    if not _sure(before, after, more):
        return False
    whole = min(len(before), len(after)) >= BLOCKS
    first, second = ([excess for run in side for excess in _excesses(run, whole)] for side in (before, after))
    return _surely(first, second) or any(
        _surely(*sides) and (fmean(sides[1]) - fmean(sides[0])) / more >= MUCH for sides in _waits(before, after)
    )


def _sure(before: Sequence[Digest], after: Sequence[Digest], more: float) -> bool:
    """Return whether the side with the shorter mean step can hardly have the same work as single long steps.

    Work in two of 30 steps looks like two disturbed steps once it is longer than the limit. Then the mean step of the
    slower version lacks this work, and that of the faster version has it. A short run may lack work that a long run of
    the same job shows. So single long steps must be far rarer than the long steps of the other side.
    """
    shorter, longer = (before, after) if more > 0 else (after, before)
    return _share(shorter, beyond) <= MUCH * _share(longer, _long)


def _long(durations: Sequence[int]) -> list[int]:
    """Return the durations of the long steps that `kept` returns: nearer to the longest one than to the median."""
    known = kept(durations, durations)
    middle = (median(durations) + max(known, default=0)) / 2
    return [duration for duration in known if duration > middle]


def _share(side: Sequence[Digest], chosen: Callable[[Sequence[int]], list[int]]) -> float:
    """Return the share of the chosen steps among the steps of some runs."""
    each = [run.step.durations_ns for run in side]
    return sum(len(chosen(durations)) for durations in each) / max(sum(map(len, each)), 1)


def _waits(before: Sequence[Digest], after: Sequence[Digest]) -> Iterator[list[list[float]]]:
    """Yield for each phase of `StepTime.wait_blocks` its values on both sides; nothing if a run lacks them."""
    known = [[run.step.wait_blocks for run in side] for side in (before, after)]
    blocks = [run for side in known for run in side if run is not None]
    if len(blocks) < len(before) + len(after):
        return
    for phase in sorted({phase for run in blocks for phase in run}):
        yield [[ns for run in side for ns in (run or {}).get(phase, (0.0,) * BLOCKS)] for side in known]


def _surely(first: Sequence[float], second: Sequence[float]) -> bool:
    """Return whether, of almost all pairs of a value of each side, the same side has the larger value."""
    more = sum(late > early for early in first for late in second)
    less = sum(late < early for early in first for late in second)
    return max(more, less) > SURE * len(first) * len(second)


def _excesses(run: Digest, whole: bool) -> list[float]:
    """Return (mean - median step) / median step, for a run or for each of its blocks."""
    step = run.step
    if whole:
        return [step.mean_ns / max(step.median_ns, 1) - 1]
    return list(step.excesses) or excesses(step.durations_ns)


def excesses(durations: Sequence[int]) -> list[float]:
    """Return (mean - median step) / median step for each block of steps.

    Args:
        durations: the durations of the steady steps of a run, in order.
    """
    middle = max(median(durations), 1)
    return [fmean(block) / middle - 1 for block in blocks(kept(durations, durations))]
