"""Test whether the runs of the new version of a job take longer than those of the old version.

The test compares runs, not steps. All steps of a run share the memory layout, the processors, and the other programs on
the machine. So a test over steps would find a difference in about half of all pairs of equal runs. All computations are
exact and use no random numbers, so the same runs always give the same result.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

#: A difference is significant if its p-value is below this. The interval of the ratio new / base uses the same value:
#: the true ratio lies below it with at most this probability, and above it with at most this probability.
ALPHA = 0.05


@dataclass(frozen=True)
class Estimate:
    """The comparison of the runs of two versions, old (base) and new.

    Attributes:
        ratio: median(new runs) / median(base runs).
        low, high: an interval for the true ratio. The true ratio is below `low` with a probability of at most `ALPHA`,
            and above `high` with a probability of at most `ALPHA`. None for too few runs.
        p: the p-value. It assumes that both versions are equally fast. Then it is the probability that chance makes the
            new runs look at least as slow as they are here.
    """

    ratio: float
    low: float | None
    high: float | None
    p: float


def estimate(base: Sequence[float], new: Sequence[float]) -> Estimate:
    """Compare the runs of two versions.

    Args:
        base: one positive figure for each base run.
        new: one positive figure for each new run.
    """
    low, high = interval(base, new)
    return Estimate(statistics.median(new) / statistics.median(base), low, high, larger(base, new))


def larger(base: Sequence[float], new: Sequence[float]) -> float:
    """Return the p-value of the exact one-sided permutation test whether `new` has larger figures than `base`.

    All runs get a rank by their figure; equal figures share their rank. Of all ways to choose `len(new)` runs, p is the
    share in which the sum of ranks is at least that of the new runs. The test uses ranks and not the figures, so that a
    single disturbed run cannot decide.

    Source: Wilcoxon 1945; the count by Streitberg and Röhmel 1986.
    """
    ranks = _doubled_ranks([*base, *new])
    seen = sum(ranks[len(base) :])
    # ways[n][s] is the number of ways to choose n runs so that the sum of their doubled ranks is s
    ways: list[dict[int, int]] = [{0: 1}] + [{} for _ in new]
    for rank in ranks:
        for count in range(len(new), 0, -1):
            into = ways[count]
            for total, number in ways[count - 1].items():
                into[total + rank] = into.get(total + rank, 0) + number
    return float(Fraction(sum(n for total, n in ways[-1].items() if total >= seen), math.comb(len(ranks), len(new))))


def interval(base: Sequence[float], new: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the ends of an interval for the ratio new / base: all ratios that fit the figures.

    A ratio fits if the new figures, divided by it, do not differ significantly from the base figures. Each end of the
    interval is the ratio of one new run to one base run. The ends are None if there are too few runs.

    Source: Hodges and Lehmann 1963; Bauer 1972.
    """
    ratios = sorted(after / before for before in base for after in new)
    at = _critical(len(base), len(new))
    return (None, None) if at is None else (ratios[at], ratios[-1 - at])


def _critical(base: int, new: int) -> int | None:
    """Return a limit for the number of pairs (base run, new run) in which the new run is the faster one.

    Up to this number, the new runs are significantly slower. The result is None if no number is significant.
    """
    counts = [1] + [0] * (base * new)
    # counts[n] becomes the number of orders of the runs with n such pairs. These numbers are the coefficients of the
    # Gaussian binomial (Mann and Whitney 1947).
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
