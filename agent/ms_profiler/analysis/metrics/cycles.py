"""Count the calls of optimizers in a step, where a step is a cycle of several calls.

A job may call one optimizer more often than another one. Then a step is one full cycle of their calls, and may hold
several iterations of the job's loop.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.steps import Steps, stepping
from ms_profiler.store.format import Category

#: end of the names of spans that reset gradients; they have the category of optimizers, but update nothing
RESETS: Final = "zero_grad"
#: smallest share of the recorded steps that must have the same number of calls
_SAME: Final = 0.9


def calls(spans: pl.DataFrame, names: pl.Series, used: Steps) -> dict[str, int]:
    """Return the number of calls of each optimizer in a step, the most frequent first.

    The result is empty if each optimizer is called once in a step, or if the number differs between steps.

    Args:
        spans: the spans of the run.
        names: texts; the column `name` of `spans` is an index of this series.
        used: the steps in use.
    """
    own = stepping(spans, used, Category.OPTIMIZER)
    called = own.select(
        names.gather(own["name"]).alias("name"), step=intervals.locate(own["start_ns"], used.recorded)
    ).filter(pl.col("step").is_not_null(), ~pl.col("name").str.ends_with(RESETS))
    counts = called.group_by("step", "name").len()
    often = pl.col("len").mode().min()
    usual = counts.group_by("name").agg(count=often, same=(pl.col("len") == often).sum())
    if usual.is_empty() or (usual["same"] < _SAME * used.recorded.height).any() or usual["count"].max() == 1:
        return {}
    ordered = usual.sort("count", "name", descending=[True, False])
    return dict(ordered.select("name", "count").iter_rows())
