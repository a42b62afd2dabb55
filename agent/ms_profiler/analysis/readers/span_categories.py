"""Correct the categories that the recorder could not know: of regions by name, of traced operators by time."""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.store.format import Category

_OPERATOR: Final = pl.col("category") == Category.OP


def settled(spans: pl.DataFrame, regions: pl.Series, compilations: pl.DataFrame) -> pl.DataFrame:
    """Return the spans of a process with the category of each operator settled.

    A compiler calls operators on the thread that it compiles on, with tensors that have no data: these are `TRACED`.

    Args:
        spans: `thread`, `category`, `name`, `start_ns`.
        regions: rows of the names of regions that the framework reports as operators.
        compilations: `thread`, `start_ns`, `end_ns`.
    """
    if len(regions):
        spans = spans.with_columns(_where(_OPERATOR & pl.col("name").is_in(regions.implode()), Category.MARKER))
    for thread, own in compilations.partition_by("thread", as_dict=True).items():
        within = intervals.locate(spans["start_ns"], intervals.union(own)).is_not_null()
        spans = spans.with_columns(_where(_OPERATOR & (pl.col("thread") == thread[0]) & within, Category.TRACED))
    return spans


def _where(chosen: pl.Expr, category: Category) -> pl.Expr:
    return pl.when(chosen).then(pl.lit(int(category), pl.UInt8)).otherwise("category").alias("category")
