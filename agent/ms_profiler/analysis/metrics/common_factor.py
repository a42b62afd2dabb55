"""Find the factor by which the times of all parts of a step changed alike.

If everything takes longer by the same factor, the cause is the machine, or something else on which the whole job
depends.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from statistics import median
from typing import Final

#: if a factor differs from 1 by less than this, it counts as 1
EVEN: Final = 0.02
#: at least this number of parts must agree on a common factor
AGREEING: Final = 5
#: the parts that agree on a common factor must have at least this share of the time of all parts
SHARED: Final = 1 / 3
#: a part counts towards the common factor if it takes at least this share of a step
ASKED: Final = 0.005
#: beyond the common factor, the change of a part is noise if it is smaller than max(`BEYOND`, `APART` * d) * time of
#: the part. Here d = median(|factor of a part / common factor - 1|) of the parts that agree on the common factor
BEYOND: Final = 0.1
APART: Final = 2.5

#: (factor of its time, time before) of a part of a step
Ratio = tuple[float, float]


def factor(ratios: Sequence[Ratio]) -> float:
    """Return the factor by which all parts changed; 1 if they did not change, or not by a common factor.

    Two medians of the parts' factors are computed: unweighted, and weighted by time. The one nearer to 1 is returned,
    so that neither many small parts nor a large one decides. If one is > 1 and the other < 1, it is 1. It is also 1 if
    too few parts agree on it. Then it cannot be told from the changes of single parts.

    Args:
        ratios: the parts.
    """
    if not ratios:
        return 1.0
    known = sorted(ratios)
    whole, run = sum(time for _, time in known), list(accumulate(time for _, time in known))
    middle, weighted = median(ratio for ratio, _ in known), known[bisect_left(run, whole / 2)][0]
    if (middle - 1) * (weighted - 1) <= 0:
        return 1.0
    found = min(middle, weighted, key=lambda each: abs(each - 1))
    agree = [time for ratio, time in known if agrees(ratio, found)]
    return found if abs(found - 1) >= EVEN and len(agree) >= AGREEING and sum(agree) >= SHARED * whole else 1.0


def agrees(ratio: float, common: float) -> bool:
    """Return whether a part's factor differs little from the common one, or is nearer to it than to 1.

    Args:
        ratio: the part's factor.
        common: the common factor.
    """
    return abs(ratio - common) <= max(BEYOND, abs(common - 1) / 2)


def worded(common: float, spread: float) -> str:
    """Return the common factor for people; its range if the speed varies by more than `EVEN` without a change.

    All parts of a step vary together with the speed of the machine, so their agreement does not show this variation.

    Args:
        common: the factor.
        spread: the usual variation of steps, as a share of the step.
    """
    if spread <= EVEN:
        return f"{common:.2f}"
    return f"{common / (1 + spread):.2f} to {common * (1 + spread):.2f}"


def noise(ratios: Sequence[Ratio], common: float) -> float:
    """Return the largest change beyond the common factor that is noise, as a part of the time.

    Args:
        ratios: the parts.
        common: the common factor.
    """
    return max(BEYOND, APART * median(abs(ratio / common - 1) for ratio, _ in ratios if agrees(ratio, common)))
