"""Compute how much equal runs of a job differ (noise), and the smallest threshold that a gate can use with them."""

import math
import statistics
from collections.abc import Sequence

#: Factor for the standard error of a median. The median of n values from a standard normal distribution has the
#: standard error sqrt(pi / 2 / n).
_MEDIAN = math.pi / 2
#: If both versions are equally fast, the ratio new / base lies more than this many standard errors above 1 in one of
#: twenty gates.
_FACTOR = 1.645
#: smallest number of runs from which a noise floor can be computed
RUNS = 4


def spread(values: Sequence[float]) -> float | None:
    """Return the spread of runs around their median, as a share; None for fewer than `RUNS` runs.

    The spread is `min(stdev(x), max(interquartile range(x) / 1.349, stdev(x) / 2))`, where x are the logarithms of the
    figures. Because of the quartiles, a single disturbed run hardly raises the spread. If the spread were too high, a
    gate would miss regressions.

    Args:
        values: one positive figure a run.
    """
    if len(values) < RUNS:
        return None
    logs = [math.log(value) for value in values]
    lower, _, upper = statistics.quantiles(logs, method="inclusive")
    # 1.349 is the distance between the quartiles of the standard normal distribution
    return min(statistics.stdev(logs), max((upper - lower) / 1.349, statistics.stdev(logs) / 2))


def floor(values: Sequence[float], runs: int) -> float | None:
    """Return the noise floor: the smallest threshold that equally fast versions hardly exceed by chance.

    The result is None for too few values.

    Args:
        values: one positive figure, such as the step time, for each run of one version.
        runs: the number of runs of the other version.
    """
    found = spread(values)
    if found is None:
        return None
    return math.expm1(_FACTOR * found * math.sqrt(_MEDIAN * (1 / len(values) + 1 / max(runs, 1))))


def runs_needed(values: Sequence[float], threshold: float, at_least: int = RUNS, most: int = 100) -> int | None:
    """Return how many runs of each version a gate needs to decide on a threshold.

    The result is None if more than `most` runs would be needed, or if there are too few values.

    Args:
        values: the figures of the runs of one version, from which the noise is computed.
        threshold: the threshold as a share.
        at_least: smallest possible result, even on a machine with little noise.
        most: largest number of runs that is practical.
    """
    found = spread(values)
    if found is None or threshold <= 0:
        return None
    needed = math.ceil(2 * _MEDIAN * (_FACTOR * found / math.log1p(threshold)) ** 2)
    return max(needed, at_least) if needed <= most else None
