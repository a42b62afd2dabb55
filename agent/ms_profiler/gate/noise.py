"""What chance alone does to runs of one side, and so what a gate over them can hold."""

import math
import statistics
from collections.abc import Sequence

#: the median of this many runs of normal noise has a standard error of sqrt(pi / 2 / runs)
_MEDIAN = math.pi / 2
#: one gate of equal sides in twenty lies this many standard errors above 1, before significance is asked for too
_FACTOR = 1.645
#: a floor of fewer runs is none
RUNS = 4


def spread(values: Sequence[float]) -> float | None:
    """Return the spread of runs around their median, as a share; None for fewer than `RUNS`.

    It is the smaller one of the standard deviation of logarithms and of their quartiles' distance, so that one run
    beside a busy neighbour raises no floor: a floor too high lets a gate sleep.

    Args:
        values: one positive figure a run.
    """
    if len(values) < RUNS:
        return None
    logs = [math.log(value) for value in values]
    lower, _, upper = statistics.quantiles(logs, method="inclusive")
    # 1.349: the distance of the quartiles of a normal distribution
    return min(statistics.stdev(logs), max((upper - lower) / 1.349, statistics.stdev(logs) / 2))


def floor(values: Sequence[float], runs: int) -> float | None:
    """Return the smallest threshold that equal sides of so many runs hold; None for fewer values than `RUNS`.

    Args:
        values: of runs of one side, one positive figure each.
        runs: to be compared on the other side.
    """
    found = spread(values)
    if found is None:
        return None
    return math.expm1(_FACTOR * found * math.sqrt(_MEDIAN * (1 / len(values) + 1 / max(runs, 1))))


def runs_needed(values: Sequence[float], threshold: float, at_least: int = RUNS, most: int = 100) -> int | None:
    """Return how many runs a side hold a threshold; None where `most` do not, or too few runs are known.

    Args:
        values: of runs of one side.
        threshold: as a share.
        at_least: runs, however quiet the machine is.
        most: runs that anybody would wait for.
    """
    found = spread(values)
    if found is None or threshold <= 0:
        return None
    needed = math.ceil(2 * _MEDIAN * (_FACTOR * found / math.log1p(threshold)) ** 2)
    return max(needed, at_least) if needed <= most else None
