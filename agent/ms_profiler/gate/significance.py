"""Test whether the runs of one side take longer than the runs of the other side.

The test compares runs, not steps. All steps of a run have the same memory layout, the same processors, and the same
other programs on the machine. So a test over steps would find a difference in about half of all pairs of equal runs.
All computations are exact and use no random numbers: the same runs give the same figures.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

#: A difference counts if its p-value is below this. The true ratio is below the interval with at most this probability,
#: and above it with at most this probability.
ALPHA = 0.05


@dataclass(frozen=True)
class Estimate:
    """The comparison of two sides.

    Attributes:
        ratio: median(new runs) / median(base runs).
        low, high: an interval for the true ratio. The true ratio is below `low` with a probability of at most `ALPHA`,
            and above `high` with a probability of at most `ALPHA`. None for too few runs.
        p: the p-value: the probability that, if both sides are equal, chance orders the runs at least as much in favour
            of a slower new side.
    """

    ratio: float
    low: float | None
    high: float | None
    p: float


def estimate(base: Sequence[float], new: Sequence[float]) -> Estimate:
    """Compare two sides.

    Args:
        base: one positive figure for each base run.
        new: one positive figure for each new run.
    """
    low, high = interval(base, new)
    return Estimate(statistics.median(new) / statistics.median(base), low, high, larger(base, new))


def larger(base: Sequence[float], new: Sequence[float]) -> float:
    """Return the p-value of the exact one-sided permutation test whether `new` has larger figures than `base`.

    p is the share of all choices of `len(new)` runs whose sum of ranks is at least that of the new runs. The test uses
    ranks, so that a single disturbed run cannot decide. Equal figures share their rank.

    Source: Wilcoxon 1945; the count by Streitberg and Röhmel 1986.
    """
    ranks = _doubled_ranks([*base, *new])
    seen = sum(ranks[len(base) :])
    # ways[n][s]: the number of choices of n runs whose doubled ranks have the sum s
    ways: list[dict[int, int]] = [{0: 1}] + [{} for _ in new]
    for rank in ranks:
        for count in range(len(new), 0, -1):
            into = ways[count]
            for total, number in ways[count - 1].items():
                into[total + rank] = into.get(total + rank, 0) + number
    return float(Fraction(sum(n for total, n in ways[-1].items() if total >= seen), math.comb(len(ranks), len(new))))


def interval(base: Sequence[float], new: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the ends of the interval of the ratio new to base: all ratios that `larger` does not reject.

    A ratio is not rejected if the new figures, divided by it, do not differ significantly from the base figures. Each
    end is the ratio of one new run to one base run. An end is None if there are too few runs.

    Source: Hodges and Lehmann 1963; Bauer 1972.
    """
    ratios = sorted(after / before for before in base for after in new)
    at = _critical(len(base), len(new))
    return (None, None) if at is None else (ratios[at], ratios[-1 - at])


def _critical(base: int, new: int) -> int | None:
    """Return the largest significant number of pairs in the wrong order; None if no number is significant."""
    counts = [1] + [0] * (base * new)
    # the distribution of the number of such pairs: coefficients of the Gaussian binomial (Mann and Whitney 1947)
    for size in range(1, new + 1):
        for index in range(len(counts) - 1, base + size - 1, -1):
            counts[index] -= counts[index - base - size]
        for index in range(size, len(counts)):
            counts[index] += counts[index - size]
    total, reached = math.comb(base + new, new), 0
    for number, count in enumerate(counts):
        reached += count
        if reached >= ALPHA * total:
            return number - 1 if number else None
    return None


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value; equal values get the mean of their ranks."""
    ordered = sorted(values)
    first: dict[float, int] = {}
    last: dict[float, int] = {}
    for rank, value in enumerate(ordered, 1):
        first.setdefault(value, rank)
        last[value] = rank
    return [first[value] + last[value] for value in values]
