"""Say where a change of the steps' length begins if it lies in a hole: among steps that have other records.

Only steps with the same records are compared, because records lengthen a step. So a change between two compared steps
may lie anywhere in the hole between them. If steps become longer little by little there, the compared steps on either
side look like a sudden change. The steps of the hole have the same records among themselves, and their lengths tell.
"""

import itertools
import math
import statistics
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import blocks
from ms_profiler.analysis.metrics.change_range import Range
from ms_profiler.analysis.metrics.steps import Steps

#: The medians of this many steps on either side of the change show at least the part `ABRUPT` of it: an eighth of the
#: hole, within these limits. Steps that become longer evenly show an eighth.
FEWEST, MOST, PART = 8, 32, 8
ABRUPT: Final = 0.35
#: The largest of some hundred differences between medians of `n` values is about this times the median difference of
#: neighbouring values / sqrt(n). Two medians differ by 1.77 / sqrt(n) standard deviations, neighbours by 0.95.
NOISE: Final = 6.0


def place(steps: Steps, same: pl.DataFrame, row: int, change: float) -> Range | None:
    """Return about the rows of all steps where a change begins just before a compared step; None if it is not sudden.

    Args:
        steps: the steps in use.
        same: the compared steps.
        row: the row of the first step after the change among the compared ones, at least 1.
        change: the logarithm of the factor by which a step becomes longer.
    """
    before, here = (int(steps.table["start_ns"].search_sorted(same["start_ns"][at])) for at in (row - 1, row))
    inside = steps.table.with_row_index("row")[before + 1 : here]
    common = inside["content"].mode().sort().head(1)
    inside = inside.filter(pl.col("content").is_in(common.implode()))
    width = min(max(inside.height // PART, FEWEST), MOST)
    if inside.height < 2 * width:
        return Range(here, 1, steps.table.height - 1)  # too few to tell
    logs: list[float] = (inside["duration_ns"].clip(1).cast(pl.Float64).log() * (1 if change > 0 else -1)).to_list()

    def moved(at: int) -> float:
        return statistics.median(logs[at : at + width]) - statistics.median(logs[at - width : at])

    # a difference of two such medians is noise up to about this
    steps_apart = statistics.median(abs(later - one) for one, later in itertools.pairwise(logs))
    noise = NOISE * steps_apart / math.sqrt(width)
    if abs(change) < 2 * noise:
        # the hole does not tell; a large one may contain nearly the whole change
        return Range(here, before + 1, here) if inside.height <= min(row, same.height - row) else None
    least = max(ABRUPT * abs(change), noise)
    at = max(range(width, len(logs) - width + 1), key=moved)
    if moved(at) >= least:
        near = logs[at - width : at + width]
        at += blocks.jump(near, *(statistics.median(side) for side in (near[:width], near[width:]))) - width
        rows = [int(inside["row"][min(max(each, 0), len(logs) - 1)]) for each in (at, at - width, at + width)]
        return Range(*rows)
    ends = [statistics.median(side) for side in (logs[:width], logs[-width:])]
    own = (same["duration_ns"].clip(1).cast(pl.Float64).log() * (1 if change > 0 else -1)).to_list()
    sides = [statistics.median(side) for side in (own[max(row - width, 0) : row], own[row : row + width])]
    # the steps on either side may become longer little by little, too
    if ends[1] - ends[0] >= least or sides[1] - sides[0] - (ends[1] - ends[0]) < least:
        return None
    # the hole lies before or after the change: all of its steps are about as long, and records hardly lengthen them
    far = [abs(statistics.median(logs) - side) for side in sides]
    if far[0] < far[1]:
        return Range(here, int(inside["row"][-width]), here)
    return Range(before + 1, before + 1, int(inside["row"][width]))
