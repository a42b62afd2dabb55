"""Find what took the extra time of the slowest step: a module, kernels of earlier steps, a callback, or a phase."""

from dataclasses import dataclass, field, replace
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals, phases
from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.metrics.scopes import Part

#: a step is slow if it takes this much longer than usual: (its length - median length) >= SLOWER * median length
SLOWER: Final = 0.1
#: a cause must explain at least this part of the extra time
EXPLAINS: Final = 0.5
#: smallest number of steps to compare, the slowest step included
LEAST: Final = 3
#: reasons for which steps are not compared
NOT_RECORDED: Final = "not recorded"
UNSTEADY: Final = "unsteady"
NO_MODULES: Final = "no modules"


@dataclass(frozen=True)
class Slow:
    """A slow step and the cause of most of its extra time: a module, earlier steps, a phase, or none of them.

    Attributes:
        number: the number of the step.
        longer_ns: extra time compared with the median step.
        module: path of the module that explains the extra time; empty if no module does.
        module_ns: extra self time of the module, compared with the median step.
        earlier: numbers of the first and the last earlier step whose kernels ran in this step, if these kernels explain
            the extra time; None otherwise.
        earlier_ns: time for which these kernels ran in this step.
        phase: phase, or callback of the script, that explains the extra time; empty if no phase does, or if a module or
            earlier steps explain it.
        phase_ns: extra time of the phase, compared with the median step.
        longer: reason -> steps that took longer, but are not compared for this reason, the longest first.
    """

    number: int
    longer_ns: int
    module: str = ""
    module_ns: int = 0
    earlier: tuple[int, int] | None = None
    earlier_ns: int = 0
    phase: str = ""
    phase_ns: int = 0
    longer: dict[str, list[int]] = field(default_factory=dict)


def slowest(
    found: Ownership, steady: pl.DataFrame, cut: pl.DataFrame, every: pl.DataFrame, callbacks: pl.DataFrame
) -> Slow | None:
    """Return the slowest step with its cause, and the longer steps; None if no step took much longer than usual.

    Args:
        found: the modules of the run with their times, from `ownership.ownership`.
        steady: steps that are compared, with `row`.
        cut: the steps cut into phases, from `phases.pieces`.
        every: the table of all steps in use.
        callbacks: the time of each callback of the script in each step: `step` (row), `name`, `time`.
    """
    slow = _slowest(found, steady, cut, every["number"], callbacks)
    return None if slow is None else replace(slow, longer=_longer(slow.number, every, steady["row"]))


def _longer(slow: int, every: pl.DataFrame, steady: pl.Series) -> dict[str, list[int]]:
    """Return the steps that took longer than the slowest compared step, by the reason why they are not compared.

    Args:
        slow: the number of the slowest compared step.
        every: the table of all steps in use.
        steady: the rows of the steady steps.
    """
    reason = (
        pl.when(~pl.col("recorded"))
        .then(pl.lit(NOT_RECORDED))
        .when(~pl.col("row").is_in(steady.implode()))
        .then(pl.lit(UNSTEADY))
        .otherwise(pl.lit(NO_MODULES))
    )
    rows = every.with_row_index("row")
    longer = rows.filter(pl.col("duration_ns") > pl.col("duration_ns").filter(pl.col("number") == slow).first())
    ordered = longer.sort("duration_ns", "row", descending=[True, False]).select("number", reason=reason)
    return {name: ordered.filter(reason=name)["number"].to_list() for name in ordered["reason"].unique().sort()}


def _slowest(
    found: Ownership, steady: pl.DataFrame, cut: pl.DataFrame, numbers: pl.Series, callbacks: pl.DataFrame
) -> Slow | None:
    """Return the slowest of the compared steps with its cause, as `slowest` does; `numbers` are those of all steps."""
    table = steady.filter(pl.col("row").is_in(found.sums["step"].unique().implode()))
    if table.height < LEAST:
        return None
    slow = table.sort("duration_ns", "row", descending=[True, False]).row(0, named=True)
    usual = float(table["duration_ns"].median() or 0)  # type: ignore[arg-type]
    longer = slow["duration_ns"] - usual
    if longer < SLOWER * usual:
        return None
    number, longer_ns = slow["number"], round(longer)
    owned = found.sums.filter(pl.col("part") != int(Part.OPTIMIZER)).drop_nulls("owner")
    module, excess = _most(owned.select("step", name="owner", time="self_ns"), table, slow["row"])
    if excess >= EXPLAINS * longer:
        return Slow(number, longer_ns, module=module, module_ns=round(excess))
    if found.basis == "kernels":
        before = intervals.clip(found.pieces.filter(pl.col("step") < slow["row"]), slow["start_ns"], slow["end_ns"])
        ran = intervals.total_ns(intervals.union(before))
        if ran >= EXPLAINS * longer:
            rows = before["step"].sort()
            return Slow(number, longer_ns, earlier=(numbers[rows[0]], numbers[rows[-1]]), earlier_ns=ran)
    callback, excess = _most(callbacks, table, slow["row"])
    if excess >= EXPLAINS * longer:
        return Slow(number, longer_ns, phase=callback, phase_ns=round(excess))
    times = phases.by_step(cut).select("step", name="phase", time="duration_ns")
    phase, excess = _most(times, table, slow["row"])
    if excess >= EXPLAINS * longer:
        return Slow(number, longer_ns, phase=phase, phase_ns=round(excess))
    return Slow(number, longer_ns)


def _most(times: pl.DataFrame, steps: pl.DataFrame, slow: int) -> tuple[str, float]:
    """Return the name with the most extra time in a step compared with the median step, and the extra time.

    The name is "" if there are no times.

    Args:
        times: `step`, `name`, `time`.
        steps: the compared steps, with `row`.
        slow: the row of the step.
    """
    by_step = times.group_by("step", "name").agg(pl.col("time").sum())
    names = by_step.join(steps.select(step="row"), on="step", how="semi").select("name").unique()
    # if a step lacks a name, the time of the name is 0 in this step
    every = steps.select(step="row").join(names, how="cross").join(by_step, on=["step", "name"], how="left")
    compared = (
        every.with_columns(pl.col("time").fill_null(0))
        .group_by("name")
        .agg(more=pl.col("time").filter(pl.col("step") == slow).sum() - pl.col("time").median())
    )
    ranked = compared.sort("more", "name", descending=[True, False])
    return ("", 0.0) if ranked.is_empty() else ranked.select("name", "more").row(0)
