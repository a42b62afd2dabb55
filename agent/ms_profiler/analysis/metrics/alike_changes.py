"""Find out whether all parts of a step changed alike where the steps became longer, and what changed beyond that.

If a processor changes its speed, the times of all modules change by about the same factor. A module that changes a
little more than the others then takes a larger share of a step, although its work is the same.
"""

from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics import common_factor, phases, shifts
from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.metrics.steps import Steps

#: a part is examined only if at least this part of the recorded steps on either side contains it
USUAL: Final = 0.9
#: parts whose factors are nearer to 1 than to the common factor have at most this share of the time of all parts
AGAINST: Final = 0.25
#: The common factor makes up at least the part `MOST` of the change, or the part `SOME` if a module changed beyond it.
#: Such a module is named if it makes up at least the part `shifts.WORTH` of the change, and if its change beyond the
#: common factor makes up at least the part `BEYOND`.
MOST: Final = 0.5
SOME: Final = 0.2
BEYOND: Final = 0.1
#: the factor by which the time of a part changed
RATIO: Final = pl.col("after_ns") / pl.col("before_ns")


def told(
    change: dict[str, Any],
    lengths_ms: tuple[float, float],
    later: pl.Series,
    steps: Steps,
    found: Ownership | None,
    spans: pl.DataFrame,
) -> dict[str, Any]:
    """Return a change with `alike`: the factor by which all computing changed; None if it did not change alike.

    If it did, only modules stay that changed beyond this factor. Waits and sleep do not depend on the speed of the
    processor. So modules, optimizers and code outside of them count, and batches only if they changed by this factor.

    Args:
        change: the change, with `modules`, as `shifts.shift` or `slowing.slowing` returns it.
        lengths_ms: the length of a step before the change and after it.
        later: whether each step is after the change; None for a step of neither side.
        steps: the steps in use.
        found: the owners of the time of `modules`; None if no module is known.
        spans: table of the run's spans, with the columns of `tables.SPANS`.
    """
    nothing = change | {"alike": None}
    # numbers of operators tell for certain that the work of a module changed
    if found is None or any("count_after" in each for each in change["modules"]):
        return nothing
    sides = steps, later, (lengths_ms[0] * 1e6, lengths_ms[1] * 1e6)
    change_ns = sides[2][1] - sides[2][0]
    parts = _parts(found).pipe(shifts.medians, "code", *sides).pipe(_usual)
    asked = parts.filter(pl.col("before_ns") >= common_factor.ASKED * sides[2][0])
    ratios: list[common_factor.Ratio] = asked.select(RATIO, "before_ns").rows()
    factor = common_factor.factor(ratios)
    against = sum(time for ratio, time in ratios if abs(ratio - factor) > abs(ratio - 1))
    if factor == 1 or against > AGAINST * sum(time for _, time in ratios):
        return nothing
    computing_ns = float(parts["before_ns"].sum())
    if found.basis == "host":
        outside = phases.aside(spans, steps).pipe(shifts.medians, "phase", *sides).pipe(_usual)
        known = outside.select(RATIO, "before_ns").iter_rows()
        computing_ns += sum(time for ratio, time in known if common_factor.agrees(ratio, factor))
    expected = factor * pl.col("before_ns")
    beyond = pl.col("after_ns") - expected
    least = common_factor.noise(ratios, factor) * pl.min_horizontal(expected, "after_ns")
    own = pl.col("after_ns") - pl.col("before_ns")
    worth = (own / change_ns >= shifts.WORTH) & (beyond / change_ns >= BEYOND)
    named = shifts.medians(found.by_step, "owner", *sides).filter(worth, beyond.abs() >= least)
    if computing_ns * (factor - 1) / change_ns < (MOST if named.is_empty() else SOME):
        return nothing
    return change | {"alike": round(factor, 3), "modules": shifts.listed(named)}


def _parts(found: Ownership) -> pl.DataFrame:
    """Return the time of each owner in each part of a step: `step`, `code` (of owner and part), `self_ns`."""
    owned = found.sums.drop_nulls("owner").cast({"step": pl.UInt32})
    return owned.group_by("step", code=pl.struct("owner", "part")).agg(pl.col("self_ns").sum())


def _usual(medians: pl.DataFrame) -> pl.DataFrame:
    """Return the parts of `shifts.medians` that most steps on either side contain."""
    enough = (pl.col(name) >= USUAL * pl.col(name).max() for name in ("count", "count_after"))
    return medians.filter(*enough, pl.col("before_ns") > 0, pl.col("after_ns") > 0)
