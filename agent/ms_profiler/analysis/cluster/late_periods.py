"""Find the period of a job in which a rank is late, where it is not late in the rest of the job.

The excess of a rank in a step is its own time minus the median own time of the other ranks.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import blocks

#: a rank that is late in most steps costs at least this share of the time of the steps
SHARE: Final = 0.03
#: a rank that is late in most steps of the job, or of a period, has a long excess in at least this share of them
OFTEN: Final = 0.7
#: within a period, an excess is long if it is at least this share of the mean length of a step
LONG: Final = 0.1
#: a rank that is late in a period costs at least this share of the time of the steps
COST: Final = 0.05
#: smallest number of steps of a period. Sampled steps count as the steps that they stand for
STEPS: Final = 16
#: smallest share of the steps that are outside of a period. If fewer are outside, the rank is late in the whole job
OUTSIDE: Final = 0.1
#: smallest number of steps of a period that are compared
COMPARED: Final = 5
#: smallest number of steps that a period has of a burst of sampled steps. Fewer may be long by chance, and then the
#: period would begin before all the steps that lie between this burst and the next
EDGE: Final = 3
#: the median excess in a period is at least this many times the median of the absolute excess in the other steps
BEYOND: Final = 3.0


def period(rows: pl.DataFrame, step: float, total_ns: int) -> pl.DataFrame:
    """Return the steps of the period in which a rank is late. The result has no rows if there is no such period.

    The period is the sequence of steps with the largest sum of (1 - `OFTEN` for each step with a long excess, and
    -`OFTEN` for each other step). So in any period, at least the share `OFTEN` of the steps has a long excess. Steps of
    the period without a long excess are left out of the result.

    Args:
        rows: the steps of the rank, sorted: `step`, `excess_ns`, and `weight`, the number of steps for which it stands.
        step: the mean length of a step, in ns.
        total_ns: the time of all steps and of the time between them, in ns.
    """
    long = rows["excess_ns"] >= LONG * step
    first, last = _without_edges(rows, *blocks.dense(long, OFTEN, rows["weight"]))
    inside = rows.slice(first, last + 1 - first)
    found = inside.filter(long.slice(first, last + 1 - first))
    outside = pl.concat([rows.head(first), rows.slice(last + 1)])
    short = inside["weight"].sum() < STEPS or inside.height < COMPARED
    if short or outside["weight"].sum() < OUTSIDE * float(rows["weight"].sum()):
        return rows.clear()
    usual = spread(outside.with_columns(pl.col("excess_ns").abs()))["excess_ns"].median()
    middle = spread(inside)["excess_ns"].median()
    assert isinstance(usual, float) and isinstance(middle, float)
    enough = middle >= max(LONG * step, BEYOND * usual) and found["excess_ns"].sum() >= COST * total_ns
    return found if enough else rows.clear()


def _without_edges(rows: pl.DataFrame, first: int, last: int) -> tuple[int, int]:
    """Return the first and the last row of a period without the part of a burst at its edges that is too small."""
    if (rows["weight"] == 1).all():
        return first, last
    burst = (rows["step"].diff() > 1).fill_null(False).cum_sum().slice(first, last + 1 - first)
    begin, end = (burst == burst[0]).sum(), (burst == burst[-1]).sum()
    if begin < EDGE and begin < len(burst):
        first += begin
    if end < EDGE and end < last + 1 - first:
        last -= end
    return first, last


def spread(rows: pl.DataFrame) -> pl.DataFrame:
    """Return each row as often as its `weight` says: once for each step for which it stands."""
    if (rows["weight"] == 1).all():
        return rows
    return rows.select(pl.all().repeat_by("weight").explode())
