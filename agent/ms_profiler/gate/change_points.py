"""Find where in a series of runs the figures changed, by E-Divisive. It needs no threshold: random reorderings show
which changes may be chance.

This is our own implementation, because the libraries that have it cannot be installed beside a training job:
apache-otava 0.8 pins NumPy 2.2 and has clients of BigQuery, Postgres and Slack; signal-processing-algorithms 2.1 needs
Python 3.11 and NumPy 1; ruptures has other methods, which need a penalty and SciPy. Energy statistics of one dimension
are a page of Python.

Source: Matteson and James 2014, with alpha 1; significance from reordering as MongoDB uses it (Daly et al. 2020).
"""

import itertools
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

#: a change counts below this probability, which is stricter than for one comparison, because every new run tests again
ALPHA = 0.01
REORDERINGS = 999
#: fewest runs on each side of a change
SMALLEST = 4
#: number of the latest runs that are examined: older changes have been reported, and time grows with the square
WINDOW = 60
SEED = 20260101


@dataclass(frozen=True)
class ChangePoint:
    """A change of a series.

    Attributes:
        index: the index of the first figure after it.
        ratio: the median between this change and the next one, divided by the median between the previous change and
            this one.
        p: the probability of such a change where the order of the figures is chance.
    """

    index: int
    ratio: float
    p: float


def find(series: Sequence[float], alpha: float = ALPHA, window: int = WINDOW, seed: int = SEED) -> list[ChangePoint]:
    """Return the changes of a series, in its order.

    Args:
        series: one positive figure a run, oldest first.
        alpha: the probability below which a change counts.
        window: number of the latest figures to examine.
        seed: the seed of the reorderings; the same series gives the same changes.
    """
    first = max(len(series) - window, 0)
    found: dict[int, float] = {}
    _divide(list(series), first, len(series), alpha, random.Random(seed), found)
    places = sorted(found)
    ends = [first, *places, len(series)]
    medians = [statistics.median(series[start:end]) for start, end in itertools.pairwise(ends) if end > start]
    return [
        ChangePoint(place, after / before, found[place])
        for place, before, after in zip(places, medians, medians[1:], strict=False)
    ]


def _divide(
    series: list[float], start: int, end: int, alpha: float, chance: random.Random, found: dict[int, float]
) -> None:
    part = series[start:end]
    if len(part) < 2 * SMALLEST:
        return
    place, energy = best(part)
    p = _probability(part, energy, alpha, chance)
    if p >= alpha:
        return
    found[start + place] = p
    _divide(series, start, start + place, alpha, chance, found)
    _divide(series, start + place, end, alpha, chance, found)


def best(part: Sequence[float]) -> tuple[int, float]:
    """Return the place that divides a series into the two parts that differ most, and the energy statistic there.

    Args:
        part: at least `2 * SMALLEST` figures.
    """
    count = len(part)
    # sums of distances within the left part, within the right one, and from one to the other, as figures change sides
    left, right = 0.0, sum(abs(a - b) for index, a in enumerate(part) for b in part[:index])
    across, place, most = 0.0, 0, -1.0
    for index, moved in enumerate(part[:-SMALLEST]):
        to_left = sum(abs(moved - other) for other in part[:index])
        to_right = sum(abs(moved - other) for other in part[index + 1 :])
        left, right, across = left + to_left, right - to_right, across - to_left + to_right
        n, m = index + 1, count - index - 1
        if n >= SMALLEST:
            within = 2 * left / (n * (n - 1)) + 2 * right / (m * (m - 1))
            energy = n * m / count * (2 * across / (n * m) - within)
            if energy > most:
                place, most = n, energy
    return place, most


def _probability(part: list[float], energy: float, alpha: float, chance: random.Random) -> float:
    """Return the share of reorderings that have a change as large; above `alpha` as soon as that is certain."""
    reached, most = 1, alpha * (REORDERINGS + 1)
    for _ in range(REORDERINGS):
        chance.shuffle(part)
        if best(part)[1] >= energy:
            reached += 1
            if reached >= most:
                return reached / (REORDERINGS + 1)
    return reached / (REORDERINGS + 1)
