"""Find where the time goes that makes some steps longer than the others: a phase, or time outside of all phases."""

import statistics
from dataclasses import replace
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import bounds, phases, scheduling
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables

#: a phase is named if it makes up at least this part of the difference; what the stepping thread does, likewise
MOST: Final = 0.5
#: a step is left out if it takes more than this many times the median of its kind, for example because it compiles
FAR: Final = 10.0


def where(
    steps: Steps, longer: pl.Series, spans: pl.DataFrame, looks: pl.DataFrame | None = None
) -> dict[str, str | None]:
    """Return where most of the difference between the longer steps and the others lies, as the summary has it.

    Args:
        steps: the steps in use.
        longer: for each of them, whether it is one of the longer steps; at least one of them is. None for a step that
            is not compared.
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        looks: the samples of threads, with the columns of `tables.LOOKS`; None if unknown.

    Returns:
        `phase`: the phase whose mean time in a step makes up most of the difference; None if no recorded phase does.
        `outside`: what the stepping thread does in most of the difference, if that lies outside of all phases:
        `bounds.BLOCKED` or `bounds.HOST`. None if that is unknown, or if the difference lies elsewhere.
    """
    nothing: dict[str, str | None] = {"phase": None, "outside": None}
    table = steps.table.with_columns(inside=longer)
    content = table.filter("inside")["content"].mode().sort()[0]
    rows = table.with_row_index("step").filter(content=content).select("step", "inside", "duration_ns").drop_nulls()
    rows = rows.filter(pl.col("duration_ns") <= FAR * pl.col("duration_ns").median().over("inside"))
    if rows["inside"].all():
        return nothing
    every = replace(steps, table=steps.table.with_columns(recorded=pl.lit(True)))
    pieces = phases.pieces(spans, every).join(rows.select("step", "inside"), on="step")
    sides = [rows.filter(side) for side in (pl.col("inside"), ~pl.col("inside"))]
    counts = [side.height for side in sides]
    slow, usual = (statistics.fmean(side["duration_ns"].to_list()) for side in sides)
    length = pl.col("end_ns") - pl.col("start_ns")
    inside, others = (length.filter(side).sum() for side in (pl.col("inside"), ~pl.col("inside")))
    times = pieces.group_by("phase").agg(more=inside / counts[0] - others / counts[1]).sort("more", "phase")
    phase, most = times.row(-1)
    if slow <= usual or most < MOST * (slow - usual):
        return nothing
    if phase != phases.OTHER:
        return nothing | {"phase": str(phase)}
    known = pl.DataFrame(schema=tables.LOOKS) if looks is None else looks
    cells = scheduling.cells(known, steps.process, steps.thread)
    outside = pieces.filter(phase=phases.OTHER)
    uses = [scheduling.usage(cells, outside.filter(side)) for side in (pl.col("inside"), ~pl.col("inside"))]
    _, ran, slept = (one / counts[0] - other / counts[1] for one, other in zip(*uses, strict=True))
    does = bounds.BLOCKED if slept >= ran else bounds.HOST
    return nothing | {"outside": does if max(slept, ran) >= MOST * (slow - usual) else None}
