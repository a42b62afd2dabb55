"""Find the range in which a change of a noisy series begins, with a stated confidence.

Each value has a score: the logarithm of (its frequency after the change / its frequency before it). The change begins
where the sum of the scores after it minus the sum before it is largest. Noise moves this place. It moves the place to
an earlier one if scores just before the change have a positive sum. The largest such sum is the statistic of a CUSUM
chart (Page, Continuous inspection schemes, Biometrika 41, 1954). The values far from the change tell how large this
statistic becomes by noise alone, also where other programs disturb several values in a row. A place belongs to the
range if its sum is less than the largest one by no more than that (as the likelihood ratio sets of Siegmund, Confidence
sets in change-point problems, International Statistical Review 56, 1988).
"""

import bisect
import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import polars as pl

from ms_profiler.analysis.metrics import blocks
from ms_profiler.analysis.metrics.steps import Steps

#: largest number of values on either side of the change that are compared
NEAR: Final = 512
#: noise like that of the values around moves a change out of the range with the probability 1 - `CONFIDENCE`
CONFIDENCE: Final = 0.99
#: A value is one of up to `BINS` kinds, each with at least `FULL` values on average.
BINS: Final = 16
FULL: Final = 16
#: number of values that each kind has on either side in addition to the counted ones, so that no frequency is 0
EXTRA: Final = 0.5
#: values of a content have own frequencies if each side has at least this number of them
OFTEN: Final = 32
#: added to the limit, because the scores are estimates
MARGIN: Final = 1.0
#: On either side of a change, the medians of at least `LEAST` and at most `BLOCKS` blocks of `BLOCK` steps vary by at
#: most `VARIES` * (the change).
BLOCK: Final = 64
LEAST: Final = 3
BLOCKS: Final = 8
VARIES: Final = 0.5
#: largest number of times that the place is corrected
ROUNDS: Final = 4


class Range(NamedTuple):
    """The place where a change begins: the most likely first index after it, and the range of its first index."""

    at: int
    first: int
    last: int


def find(values: Sequence[float], at: int, bounds: tuple[int, int], contents: Sequence[str] | None = None) -> Range:
    """Return the place of a change.

    Args:
        values: the series.
        at: about the first index after the change.
        bounds: the smallest and the largest possible first index.
        contents: what else changes the values; values with different contents are not compared. None: nothing.
    """
    kinds = contents or [""] * len(values)
    first, last = max(at - NEAR, 0), min(at + NEAR, len(values))
    lowest, highest = max(bounds[0], first + 1), min(bounds[1], last - 1)
    if lowest >= highest:
        return Range(bounds[0], *bounds) if lowest > highest else Range(lowest, lowest, lowest)
    at = min(max(at, lowest), highest)
    seen: list[int] = []
    while at not in seen and len(seen) < ROUNDS:
        seen.append(at)
        scores = _scores(values[first:last], kinds[first:last], at - first)
        sums = [0.0, *itertools.accumulate(-score for score in scores)]
        likely = range(lowest - first, highest - first + 1)
        at = first + max(likely, key=sums.__getitem__)
    most = sums[at - first]
    limit = _limit(scores, at - first) + MARGIN
    inside = [index for index in likely if most - sums[index] <= limit]
    return Range(at, first + inside[0], first + inside[-1])


def of_lengths(steps: Steps, moment: int, bounds: tuple[int, int] | None = None) -> Range:
    """Return the first step after a change of the lengths, with its range. All steps count, sampled or not.

    Args:
        steps: the steps in use.
        moment: about the start of the first step after the change, ns.
        bounds: the smallest and the largest row of the first step after the change; None if unknown.
    """
    table = steps.table
    logs = table["duration_ns"].clip(1).cast(pl.Float64).log().to_list()
    at = int(table["start_ns"].search_sorted(moment))
    return find(logs, at, bounds or (1, table.height - 1), table["content"].to_list())


def is_clear(steps: Steps, bounds: tuple[int, int]) -> bool:
    """Return whether the lengths can tell the place of a change that lies between two rows for certain.

    They can, if the medians of blocks of steps vary less on either side than the change. On a busy machine, the speed
    changes for hundreds of steps, and such a change would be taken for the sought one.

    Args:
        steps: the steps in use.
        bounds: the smallest and the largest row of the first step after the change.
    """
    logs = pl.col("duration_ns").clip(1).cast(pl.Float64).log()
    by_records = logs.median().over("content") - logs.median()  # records lengthen a step
    values: list[float] = steps.table.select(logs - by_records).to_series().to_list()
    sides = values[max(bounds[0] - BLOCKS * BLOCK, 0) : bounds[0]], values[bounds[1] : bounds[1] + BLOCKS * BLOCK]
    medians = [blocks.medians(side, BLOCK) for side in sides]
    if min(map(len, medians)) < LEAST:
        return False
    change = abs(statistics.median(medians[1]) - statistics.median(medians[0]))
    return max(max(side) - min(side) for side in medians) <= VARIES * change


def numbers(steps: Steps, place: Range) -> dict[str, int]:
    """Return the numbers of the first step after a change: `step`, and its range `earliest` and `latest`.

    Args:
        steps: the steps in use.
        place: the rows of the first step after the change.
    """
    table = steps.table["number"]
    return {
        "step": int(table[place.at]),
        "earliest": int(table[place.first]),
        "latest": int(table[place.last]),
    }


def _scores(values: Sequence[float], kinds: Sequence[str], at: int) -> list[float]:
    """Return the score of each value for a change at `at`; 0 for a value with a rare content."""
    scores = [0.0] * len(values)
    for kind in set(kinds):
        places = [place for place, other in enumerate(kinds) if other == kind]
        middle = bisect.bisect_left(places, at)
        if min(middle, len(places) - middle) < min(OFTEN, at, len(values) - at):
            continue
        own = [values[place] for place in places]
        ordered = sorted(own)
        bins = max(min(BINS, len(own) // FULL), 2)
        # values between the two sides are told apart at the middle between their medians
        middles = [statistics.median(side) for side in (own[:middle], own[middle:])]
        edges = sorted([sum(middles) / 2, *(ordered[len(own) * part // bins] for part in range(1, bins))])
        found = [bisect.bisect_right(edges, value) for value in own]
        sides = [_frequencies(found[:middle], bins + 1), _frequencies(found[middle:], bins + 1)]
        for place, part in zip(places, found, strict=True):
            scores[place] = math.log(sides[1][part] / sides[0][part])
    return scores


def _frequencies(found: list[int], bins: int) -> list[float]:
    whole = len(found) + bins * EXTRA
    return [(found.count(part) + EXTRA) / whole for part in range(bins)]


def _limit(scores: list[float], at: int) -> float:
    """Return the sum by which noise alone moves a change, at most, with the probability `CONFIDENCE`."""
    before, after = scores[:at], [-score for score in reversed(scores[at:])]
    sides = [(sorted(_charted(side)), _independent(side)) for side in (before, after)]

    def within(limit: float) -> float:
        shares = (bisect.bisect_right(sums, limit) / len(sums) * number / (number + 1) for sums, number in sides)
        return math.prod(shares)

    limits = sorted({*sides[0][0], *sides[1][0]})
    return next((limit for limit in limits if within(limit) >= CONFIDENCE), limits[-1])


def _independent(scores: list[float]) -> float:
    """Return the number of independent scores that tell as much as these ones, from the correlation of neighbours."""
    mean = statistics.fmean(scores)
    square = sum((score - mean) ** 2 for score in scores)
    both = sum((one - mean) * (other - mean) for one, other in itertools.pairwise(scores))
    alike = min(max(both / square, 0.0), 0.99) if square else 0.0
    return len(scores) * (1 - alike) / (1 + alike)


def _charted(scores: Iterable[float]) -> Iterable[float]:
    """Return the statistic of the CUSUM chart at each score."""
    return itertools.accumulate(scores, lambda sum_, score: max(sum_ + score, 0.0), initial=0.0)
