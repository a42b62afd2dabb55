"""Compute the noise of the runs of one side, and the smallest threshold that a gate can use with them."""

import math
import statistics
from collections.abc import Sequence

#: the median of n values with normal noise of 1 has a standard error of sqrt(pi / 2 / n)
_MEDIAN = math.pi / 2
#: with equal sides, the ratio lies more than this many standard errors above 1 in one of twenty gates
_FACTOR = 1.645
#: smallest number of runs from which a noise floor can be computed
RUNS = 4


def spread(values: Sequence[float]) -> float | None:
    """Return the spread of runs around their median, as a share; None for fewer than `RUNS` runs.

    The spread is `min(stdev(x), max(interquartile range(x) / 1.349, stdev(x) / 2))`, where x are the logarithms of the
    figures. Because of the quartiles, a single disturbed run does not raise the noise floor. With too high a floor, a
    gate would miss regressions.

    Args:
        values: one positive figure a run.
    """
    if len(values) < RUNS:
        return None
    logs = [math.log(value) for value in values]
    lower, _, upper = statistics.quantiles(logs, method="inclusive")
    # 1.349: the distance between the quartiles of the standard normal distribution
    return min(statistics.stdev(logs), max((upper - lower) / 1.349, statistics.stdev(logs) / 2))


def floor(values: Sequence[float], runs: int) -> float | None:
    """Return the noise floor: the smallest threshold that equal sides hardly exceed by chance; None for too few values.

    Args:
        values: one positive figure for each run of one side.
        runs: the number of runs of the other side.
    """
    found = spread(values)
    if found is None:
        return None
    return math.expm1(_FACTOR * found * math.sqrt(_MEDIAN * (1 / len(values) + 1 / max(runs, 1))))


def runs_needed(values: Sequence[float], threshold: float, at_least: int = RUNS, most: int = 100) -> int | None:
    """Return the number of runs on each side that a threshold needs.

    The result is None if the number is above `most`, or if there are too few values.

    Args:
        values: the figures of the runs of one side.
        threshold: the threshold as a share.
        at_least: smallest number of runs, even on a quiet machine.
        most: largest number of runs that is practical.
    """
    found = spread(values)
    if found is None or threshold <= 0:
        return None
    needed = math.ceil(2 * _MEDIAN * (_FACTOR * found / math.log1p(threshold)) ** 2)
    return max(needed, at_least) if needed <= most else None
