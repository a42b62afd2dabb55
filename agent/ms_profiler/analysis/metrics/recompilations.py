"""Find repeated compilations, the reason of each, and the time that compiling takes in each step."""

from dataclasses import replace

import polars as pl

from ms_profiler.analysis.metrics import intervals, phases
from ms_profiler.analysis.metrics.steps import Steps, stepping
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category


def recompilations(recording: tables.Recording, steps: Steps) -> pl.DataFrame:
    """Return the repeated compilations: `step` (row of `steps.table`), `text` (the reason).

    Args:
        recording: the recording, with its instants.
        steps: the steps in use.
    """
    marks = recording.instants.filter(
        pl.col("process") == steps.process, pl.col("category") == int(Category.COMPILE)
    ).sort("time_ns")
    texts = recording.names.gather(marks["name"])
    found = pl.DataFrame(
        {"step": intervals.locate(marks["time_ns"], steps.table), "text": texts},
        schema={"step": pl.UInt32, "text": pl.String},
    )
    return found.filter(pl.col("step").is_not_null(), pl.col("text").str.starts_with("recompile"))


def known(steps: Steps) -> pl.DataFrame:
    """Return the steps in which compiling was recorded: also those that were not sampled.

    Args:
        steps: the steps in use.
    """
    return steps.table.filter(pl.col("content") != tables.TIMES_ALONE)


def times(spans: pl.DataFrame, steps: Steps) -> dict[int, int]:
    """Return step (row of `steps.table`) -> time in ns in which something was compiled, for the steps of `known`.

    Args:
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        steps: the steps in use.
    """
    own = stepping(spans, steps)
    compiling = own["category"] == int(Category.COMPILE)
    # of the other spans, only those inside matter
    around = intervals.union(own.filter(compiling))
    own = own.filter(compiling | intervals.locate(own["start_ns"], around).is_not_null())
    every = replace(steps, table=steps.table.with_columns(recorded=pl.col("content") != tables.TIMES_ALONE))
    spent = phases.by_step(phases.pieces(own, every)).filter(phase=phases.NAMES[Category.COMPILE])
    return dict(spent.select("step", "duration_ns").iter_rows())
