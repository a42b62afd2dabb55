"""Find steps that become longer little by little, for example because the job adds a hook or a tensor in each step."""

import itertools
import math
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics import blocks, shifts
from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.metrics.steps import Steps, milliseconds

#: The run is cut into `PARTS` parts. The lower quartile of the lengths of their steps hardly depends on other programs.
PARTS: Final = 20
#: smallest number of steps of a part
LEAST: Final = 8
#: smallest factor between the lengths of the first and the last steps
FACTOR: Final = 1.3
#: smallest rank correlation (Kendall's tau) of the parts' lengths with their order. Without growth, the standard
#: deviation of tau is 0.16 for 20 parts (Kendall, Biometrika 30, 1938). If the lengths change at once, tau is 0.53.
ORDERED: Final = 0.8
#: A job that trains larger and larger networks one after the other becomes slower in stages: the `SUDDEN` largest rises
#: from one part to the next make up the part `MOST` of the growth (logarithms). Of lengths that grow evenly, by 1.3 to
#: 50 times, they make up 0.3 to 0.64. With noise, they may make up all, but then falls make up more than `FALLS` of it.
SUDDEN: Final = 4
MOST: Final = 0.8
FALLS: Final = 0.15


def slowing(steps: Steps, found: Ownership | None) -> dict[str, Any] | None:
    """Return by how much the steps became longer, if they did so little by little over the run; None otherwise.

    Args:
        steps: the steps in use.
        found: the owners of the time of sampled steps; None if no module is known.

    Returns:
        `from_ms` and `to_ms`: the lower quartile of the lengths in the first part and in the last one; and `modules`,
        as in the result of `shifts.shift`.
    """
    same = shifts.alike(steps)
    if same.height < PARTS * LEAST:
        return None
    bounds = [part * same.height // PARTS for part in range(PARTS + 1)]
    lengths = same["duration_ns"].to_list()
    levels = [blocks.quartile(lengths[first:last]) for first, last in itertools.pairwise(bounds)]
    before, after = levels[0], levels[-1]
    if not all(levels) or after < FACTOR * before or _ordered(levels) < ORDERED or _in_stages(levels):
        return None
    modules = [] if found is None else shifts.modules(steps, found, sides(steps), (before, after))
    return {"from_ms": milliseconds(before), "to_ms": milliseconds(after), "modules": modules}


def sides(steps: Steps) -> pl.Series:
    """Return for each step whether it is in the last third of the steps; None for a step in the second third.

    Args:
        steps: the steps in use.
    """
    starts = shifts.alike(steps)["start_ns"]
    third = len(starts) // 3
    return shifts.around(steps, (starts[third], starts[-third]))


def _ordered(values: list[int]) -> float:
    """Return Kendall's tau of values with their order: (pairs that rise - pairs that fall) / all pairs."""
    rises = [math.copysign(1, later - one) if later != one else 0 for one, later in itertools.combinations(values, 2)]
    return sum(rises) / len(rises)


def _in_stages(values: list[int]) -> bool:
    """Return whether few rises from one value to the next make up nearly all of the growth."""
    rises = sorted(math.log(later / one) for one, later in itertools.pairwise(values))
    growth = sum(rises)
    falls = -sum(rise for rise in rises if rise < 0)
    return sum(rises[-SUDDEN:]) >= MOST * growth and falls <= FALLS * growth
