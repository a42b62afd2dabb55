"""Correct the category of spans that the recorder took for computing operators.

There are two kinds of such spans:

- Regions of a compiler (see `readers.regions`) are recognized by their names.
- Operators that a compiler only traces, without computing, are recognized by their times: they begin during a
  compilation.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.store.format import Category

_OPERATOR: Final = pl.col("category") == Category.OP


def settled(spans: pl.DataFrame, regions: pl.Series, compilations: pl.DataFrame) -> pl.DataFrame:
    """Return the spans of a process with the final category of each operator.

    While a compiler compiles, it calls operators on the same thread, with tensors that have no data. These operators
    get the category `TRACED`.

    Args:
        spans: `thread`, `category`, `name`, `start_ns`.
        regions: rows of `Recording.names` that are names of a compiler's regions. Spans with these names get the
            category `MARKER`.
        compilations: `thread`, `start_ns`, `end_ns` of each compilation.
    """
    if len(regions):
        spans = spans.with_columns(_where(_OPERATOR & pl.col("name").is_in(regions.implode()), Category.MARKER))
    for thread, own in compilations.partition_by("thread", as_dict=True).items():
        within = intervals.locate(spans["start_ns"], intervals.union(own)).is_not_null()
        spans = spans.with_columns(_where(_OPERATOR & (pl.col("thread") == thread[0]) & within, Category.TRACED))
    return spans


def _where(chosen: pl.Expr, category: Category) -> pl.Expr:
    return pl.when(chosen).then(pl.lit(int(category), pl.UInt8)).otherwise("category").alias("category")
