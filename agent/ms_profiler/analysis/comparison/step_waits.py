"""Give the mean step of a sampled run the waits for data and the checkpoints of all its steps.

These phases are recorded in every step. If a job writes a checkpoint in every 50th step, chance decides how many of
these steps are sampled, and the mean of the others would be too long or too short.
"""

from dataclasses import dataclass, replace
from statistics import fmean

import polars as pl

from ms_profiler.analysis.comparison import recurrence
from ms_profiler.analysis.comparison.digest import Average, Cell
from ms_profiler.analysis.metrics import known_waits
from ms_profiler.analysis.metrics.measures import Measures


@dataclass(frozen=True)
class Waits:
    """The time per step of each phase that is recorded in every step.

    Single long steps (`recurrence.kept`) are left out.

    Attributes:
        blocks: see `StepTime.wait_blocks`.
        every: phase -> ns per step, in all steady steps. This and the next two are empty if all steps were recorded.
        others: phase -> ns per step, in the steady steps that were not sampled.
        excesses: see `StepTime.excesses`.
    """

    blocks: dict[str, tuple[float, ...]]
    every: dict[str, float]
    others: dict[str, float]
    excesses: list[float]

    @property
    def missing_ns(self) -> int:
        """Return by how much the mean of all steps exceeds that of the steps that were not sampled; may be negative."""
        return round(sum(self.every.values()) - sum(self.others.values()))

    def added(self, average: Average) -> Average:
        """Return the parts of a mean step with these phases as they are in all steps.

        Of a phase, the same share counts as a wait as in the sampled steps, or all of it if no sampled step has it.

        Args:
            average: the parts of the mean sampled step.
        """
        cells, parts = list(average.cells), dict(average.bounds)
        for phase, ns in self.every.items():
            spent, before = average.phases.get(phase, 0), parts.get(phase, 0)
            parts[phase] = round(ns * before / spent) if spent else round(ns)
            cells = _scaled(cells, phase, parts[phase])
        told = sum(cell.ns for cell in cells)
        every = {phase: round(ns) for phase, ns in self.every.items()}
        return replace(average, told_ns=told, phases=average.phases | every, bounds=parts, cells=tuple(cells))


def _scaled(cells: list[Cell], part: str, ns: int) -> list[Cell]:
    """Return the cells with `ns` in those of one part, divided among them as before."""
    before = sum(cell.ns for cell in cells if cell.part == part)
    if not before:
        return [*cells, Cell(part, part, "", "", "", "", ns)] if ns else cells
    return [replace(cell, ns=round(cell.ns * ns / before)) if cell.part == part else cell for cell in cells]


def waits(measures: Measures, steady: pl.DataFrame, others: pl.DataFrame | None, cost_ns: int) -> Waits:
    """Return the waits of a run.

    Args:
        measures: the measures of the run.
        steady: its recorded steady steps, with `row`.
        others: its steady steps that were not sampled, with `row`; None if all steps were recorded.
        cost_ns: by how much the median step is longer because it is recorded.
    """
    times = known_waits.waits(measures.spans, measures.steps)
    if others is None:
        return Waits(_by_block(times, steady), {}, {}, [])
    columns = "row", "start_ns", "duration_ns"
    every = pl.concat([steady.select(columns), others.select(columns)])
    free = pl.concat([steady.select(columns).with_columns(pl.col("duration_ns") - cost_ns), others.select(columns)])
    excesses = recurrence.excesses(free.sort("start_ns")["duration_ns"].to_list())
    return Waits(_by_block(times, every), _mean(times, free), _mean(times, others), excesses)


def _by_block(times: pl.DataFrame, steps: pl.DataFrame) -> dict[str, tuple[float, ...]]:
    """Return the value of `StepTime.wait_blocks` for some steps, with `row`, `start_ns` and `duration_ns`."""
    rows = _kept(steps)
    found = {}
    for (phase,), own in times.filter(pl.col("step").is_in(rows)).group_by("phase"):
        spent = dict(own.select("step", "duration_ns").iter_rows())
        blocks = recurrence.blocks([spent.get(row, 0) for row in rows])
        found[str(phase)] = tuple(round(fmean(block)) for block in blocks)
    return dict(sorted(found.items()))


def _mean(times: pl.DataFrame, steps: pl.DataFrame) -> dict[str, float]:
    rows = _kept(steps)
    summed = times.filter(pl.col("step").is_in(rows)).group_by("phase").agg(pl.col("duration_ns").sum())
    return {phase: total / max(len(rows), 1) for phase, total in summed.iter_rows()}


def _kept(steps: pl.DataFrame) -> list[int]:
    """Return the rows of the steps without single long ones, in order."""
    ordered = steps.sort("start_ns")
    return recurrence.kept(ordered["row"].to_list(), ordered["duration_ns"].to_list())
