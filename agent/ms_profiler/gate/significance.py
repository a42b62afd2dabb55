"""Compute how certain it is that the runs of one side take longer than those of the other.

The test compares runs, not steps: steps of one run share its memory layout, its placement and its neighbours, so a test
over steps calls every second pair of equal runs different. All computations are exact and draw no random numbers: the
same runs give the same figures.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

#: a difference counts below this probability; each end of the interval is missed as often
ALPHA = 0.05


@dataclass(frozen=True)
class Estimate:
    """How one side compares with the other.

    Attributes:
        ratio: median over the new runs, divided by that over the base runs.
        low, high: the interval of the ratio, each end missed with probability `ALPHA` at most; None if too few runs
            have no such end.
        p: the probability of runs ordered so by chance alone, if both sides were equal.
    """

    ratio: float
    low: float | None
    high: float | None
    p: float


def estimate(base: Sequence[float], new: Sequence[float]) -> Estimate:
    """Compare two sides.

    Args:
        base: one positive figure a run.
        new: like `base`.
    """
    low, high = interval(base, new)
    return Estimate(statistics.median(new) / statistics.median(base), low, high, larger(base, new))


def larger(base: Sequence[float], new: Sequence[float]) -> float:
    """Return the exact one-sided permutation p that `new` has larger figures than `base`.

    p is the share of all choices of `len(new)` runs whose sum of ranks is as large as that of the new runs. Ranks are
    used because otherwise a single run beside a busy neighbour could decide; equal figures share their rank.

    Source: Wilcoxon 1945; the count by Streitberg and Röhmel 1986.
    """
    ranks = _doubled_ranks([*base, *new])
    seen = sum(ranks[len(base) :])
    # ways[n][s]: how often n of the runs have s as the doubled sum of their ranks
    ways: list[dict[int, int]] = [{0: 1}] + [{} for _ in new]
    for rank in ranks:
        for count in range(len(new), 0, -1):
            into = ways[count]
            for total, number in ways[count - 1].items():
                into[total + rank] = into.get(total + rank, 0) + number
    return float(Fraction(sum(n for total, n in ways[-1].items() if total >= seen), math.comb(len(ranks), len(new))))


def interval(base: Sequence[float], new: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the ends of the interval of the ratio new to base: all ratios that `larger` does not refuse.

    Both ends are ratios of a new run to a base run. If all new figures are divided by a ratio below the low end,
    `larger` stays below `ALPHA`. An end is None if too few runs have one.

    Source: Hodges and Lehmann 1963; Bauer 1972.
    """
    ratios = sorted(after / before for before in base for after in new)
    at = _critical(len(base), len(new))
    return (None, None) if at is None else (ratios[at], ratios[-1 - at])


def _critical(base: int, new: int) -> int | None:
    """Return the largest number of pairs in the wrong order that still is significant, None where there is none."""
    counts = [1] + [0] * (base * new)
    # the distribution of that number, as coefficients of the Gaussian binomial (Mann and Whitney 1947)
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
    """Return twice the ranks of values, the mean of several ranks where values are equal."""
    ordered = sorted(values)
    first: dict[float, int] = {}
    last: dict[float, int] = {}
    for rank, value in enumerate(ordered, 1):
        first.setdefault(value, rank)
        last[value] = rank
    return [first[value] + last[value] for value in values]
