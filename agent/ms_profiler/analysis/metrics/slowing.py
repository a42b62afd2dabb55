"""Find steps that become longer little by little, or in stages.

They do so little by little, for example, because the job adds a hook or a tensor in each step. They do so in stages if
the job trains larger and larger networks, or images.
"""

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
#: the same if the lengths change in two stages or more, where tau is 0.67 or more; less, if a stage is short
IN_STAGES: Final = 0.6
#: If steps become longer in stages, the `SUDDEN` largest rises from one part to the next make up the part `MOST` of the
#: growth (logarithms), and each of them at least the part `STAGE`. Of lengths that grow evenly, by 1.3 to 50 times,
#: they make up 0.3 to 0.64. With noise, they may make up all, but then falls make up more than `FALLS` of it.
SUDDEN: Final = 4
MOST: Final = 0.8
STAGE: Final = 0.05
FALLS: Final = 0.25


def slowing(steps: Steps, found: Ownership | None) -> dict[str, Any] | None:
    """Return by how much the steps became longer, if they did so little by little or in stages; None otherwise.

    Args:
        steps: the steps in use.
        found: the owners of the time of sampled steps; None if no module is known.

    Returns:
        `from_ms` and `to_ms`: the lower quartile of the lengths in the first part and in the last one; `stages`: the
        steps from which on they are longer, about, if they become longer in stages; and `modules`, as in the result of
        `shifts.shift`.
    """
    same = shifts.alike(steps)
    if same.height < PARTS * LEAST:
        return None
    bounds = [part * same.height // PARTS for part in range(PARTS + 1)]
    lengths = same["duration_ns"].to_list()
    levels = [blocks.quartile(lengths[first:last]) for first, last in itertools.pairwise(bounds)]
    before, after, order = levels[0], levels[-1], _ordered(levels)
    if not all(levels) or after < FACTOR * before or order < IN_STAGES:
        return None
    stages = _stages(levels)
    if not stages and order < ORDERED:
        return None
    places = [
        bounds[first] + blocks.jump(lengths[bounds[first] : bounds[last + 1]], levels[first], levels[last])
        for first, last in stages
    ]
    modules = [] if found is None else shifts.modules(steps, found, sides(steps), (before, after))
    numbers = same["number"].gather(places).to_list()
    return {"from_ms": milliseconds(before), "to_ms": milliseconds(after), "stages": numbers, "modules": modules}


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


def _stages(values: list[int]) -> list[tuple[int, int]]:
    """Return the indices of the values before and after each rise, if two to four make up nearly all of the growth.

    If one part has the end of a stage and the begin of the next one, two rises follow each other, and count as one.
    """
    rises = [math.log(later / one) for one, later in itertools.pairwise(values)]
    growth, falls = sum(rises), -sum(rise for rise in rises if rise < 0)
    largest = sorted(range(len(rises)), key=rises.__getitem__)[-SUDDEN:]
    if sum(rises[index] for index in largest) < MOST * growth or falls > FALLS * growth:
        return []
    stages: list[tuple[int, int]] = []
    for index in sorted(index for index in largest if rises[index] >= STAGE * growth):
        first = stages.pop()[0] if stages and stages[-1][1] == index else index
        stages.append((first, index + 1))
    return stages if len(stages) > 1 else []
