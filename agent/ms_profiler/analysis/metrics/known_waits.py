"""Find the waits that are recorded in every step of a run, also in steps without modules and operators."""

from dataclasses import replace
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals, phases
from ms_profiler.analysis.metrics.steps import Steps, stepping
from ms_profiler.store.format import CATEGORY_FINE, Category

#: the phases that are recorded in every step, also in those that are not sampled
KNOWN: Final = (phases.NAMES[Category.DATA], phases.NAMES[Category.CHECKPOINT])


def waits(spans: pl.DataFrame, steps: Steps) -> pl.DataFrame:
    """Return the time of each phase of `KNOWN` in each step, sampled or not: `step`, `phase`, `duration_ns`.

    Args:
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        steps: the steps in use.
    """
    own = stepping(spans.filter(pl.col("category") < CATEGORY_FINE), steps)
    known = own["category"].is_in([int(Category.DATA), int(Category.CHECKPOINT)])
    # of the other spans, only those inside matter. To cut a million steps at all their spans takes some seconds
    around = intervals.union(own.filter(known))
    own = own.filter(known | intervals.locate(own["start_ns"], around).is_not_null())
    every = replace(steps, table=steps.table.with_columns(recorded=True))
    return phases.by_step(phases.pieces(own, every)).filter(pl.col("phase").is_in(KNOWN))


def lengths(spans: pl.DataFrame, steps: Steps) -> pl.Series:
    """Return the length of each step in ns, without the phases of `KNOWN`.

    Args:
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        steps: the steps in use.
    """
    known = waits(spans, steps).group_by(row="step").agg(pl.col("duration_ns").sum().alias("waited"))
    rows = steps.table.with_row_index("row").join(known, on="row", how="left", maintain_order="left")
    return rows.select(length=pl.col("duration_ns") - pl.col("waited").fill_null(0)).to_series()
