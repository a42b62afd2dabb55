"""Find the phase that makes some steps longer than the others."""

import statistics
from dataclasses import replace
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import phases
from ms_profiler.analysis.metrics.steps import Steps

#: a phase is named if it makes up at least this part of the difference
MOST: Final = 0.5


def name(steps: Steps, longer: pl.Series, spans: pl.DataFrame) -> str | None:
    """Return the phase whose mean time in a step makes up most of the difference; None if no recorded phase does.

    Args:
        steps: the steps in use.
        longer: for each of them, whether it is one of the longer steps; at least one of them is.
        spans: table of the run's spans, with the columns of `tables.SPANS`.
    """
    table = steps.table.with_columns(inside=longer)
    content = table.filter("inside")["content"].mode().sort()[0]
    rows = table.with_row_index("step").filter(content=content).select("step", "inside", "duration_ns")
    if rows["inside"].all():
        return None
    every = replace(steps, table=steps.table.with_columns(recorded=pl.lit(True)))
    times = phases.by_step(phases.pieces(spans, every)).rename({"duration_ns": "ns"}).join(rows, on="step")
    counts = [rows.filter(side).height for side in (pl.col("inside"), ~pl.col("inside"))]
    inside, outside = (pl.col("ns").filter(side).sum() for side in (pl.col("inside"), ~pl.col("inside")))
    more = times.group_by("phase").agg(more=inside / counts[0] - outside / counts[1]).sort("more", "phase")
    sides = (rows.filter(side)["duration_ns"].to_list() for side in (pl.col("inside"), ~pl.col("inside")))
    slow, usual = map(statistics.fmean, sides)
    phase, most = more.row(-1)
    return str(phase) if phase != phases.OTHER and most >= MOST * (slow - usual) else None
