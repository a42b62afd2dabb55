"""Find the places in a series of runs at which a figure changed, with the method E-Divisive. The method needs no
threshold: it compares each change with the changes in random reorderings of the series.

This module implements the method itself, because no library fits into the environment of a training job. apache-otava
0.8 pins NumPy 2.2 and has clients of BigQuery, Postgres and Slack. signal-processing-algorithms 2.1 needs Python 3.11
and NumPy 1. ruptures has other methods, which need a penalty and SciPy. For series of single numbers, the method takes
only one page of Python.

Source: Matteson and James 2014, with alpha 1; significance from reordering as MongoDB uses it (Daly et al. 2020).
"""

import itertools
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

#: A change counts if the probability that chance alone causes it is below this. The limit is smaller than for a single
#: comparison, because the series is tested again after every new run.
ALPHA = 0.01
REORDERINGS = 999
#: smallest number of runs on each side of a change
SMALLEST = 4
#: Number of runs that are examined, the latest ones of the series. Changes in older runs have been reported already,
#: and the time of the search grows with the square of this number.
WINDOW = 60
SEED = 20260101


@dataclass(frozen=True)
class ChangePoint:
    """A place in a series of figures at which the figures change.

    Attributes:
        index: the index of the first figure after the change.
        before: the median of the figures from the previous change to this one.
        after: the median of the figures from this change to the next one.
        p: the probability of a change at least this large if the figures are in a random order.
    """

    index: int
    before: float
    after: float
    p: float

    @property
    def ratio(self) -> float | None:
        """Return `after` divided by `before`; None if `before` is 0."""
        return self.after / self.before if self.before else None


def find(series: Sequence[float], alpha: float = ALPHA, window: int = WINDOW, seed: int = SEED) -> list[ChangePoint]:
    """Return the changes of a series in the order in which they happened.

    Args:
        series: one figure a run, oldest first; none is negative.
        alpha: a change counts if the probability that chance alone causes it is below this.
        window: number of the latest figures to examine.
        seed: the seed for the random reorderings; with the same seed, a series always gives the same changes.
    """
    first = max(len(series) - window, 0)
    found: dict[int, float] = {}
    _divide(list(series), first, len(series), alpha, random.Random(seed), found)
    places = sorted(found)
    ends = [first, *places, len(series)]
    medians = [statistics.median(series[start:end]) for start, end in itertools.pairwise(ends) if end > start]
    return [
        ChangePoint(place, before, after, found[place])
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
    """Return the place at which the two parts of a series differ most, and the energy statistic at this place.

    The energy statistic measures how much the two parts differ.

    Args:
        part: at least `2 * SMALLEST` figures.
    """
    count = len(part)
    # Three sums of distances: between figures of the left part, between figures of the right part, and between figures
    # of different parts. Each iteration moves one figure from the right part to the left part.
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
    """Return the share of random reorderings with a change at least this large; stop when it has reached `alpha`."""
    reached, most = 1, alpha * (REORDERINGS + 1)
    for _ in range(REORDERINGS):
        chance.shuffle(part)
        if best(part)[1] >= energy:
            reached += 1
            if reached >= most:
                return reached / (REORDERINGS + 1)
    return reached / (REORDERINGS + 1)
