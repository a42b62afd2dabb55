"""Find steps that exchange the gradients of DistributedDataParallel in each of several backward passes.

A script that accumulates gradients runs several backward passes before a step of its optimizer. Without `no_sync`, each
of these passes exchanges all gradients, although only the sum after the last pass matters.
"""

from typing import Final, NamedTuple

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.steps import Steps, stepping
from ms_profiler.store.format import Category

#: smallest share of the steps that must exchange the gradients in each of their passes
STEPS: Final = 0.9
#: smallest ratio of the bytes that a pass exchanges to the bytes of the gradients; a communication hook may halve them
BYTES: Final = 0.4
_OPERATION: Final = "AllReduce"


class Exchanged(NamedTuple):
    """The backward passes of a step, each of which exchanges the gradients.

    Attributes:
        passes: number of backward passes of a step (median).
        bytes: number of bytes that each pass exchanges (median).
    """

    passes: int
    bytes: int


def found(gradients: int, steps: Steps, rows: list[int], spans: pl.DataFrame, calls: pl.DataFrame) -> Exchanged | None:
    """Return the passes of a step that each exchange the gradients; None if a step exchanges them at most once.

    The exchanges of a step form one series for each group. Each pass has its part of the series: as many exchanges, and
    of the same sizes, as each other pass.

    Args:
        gradients: the bytes of the gradients that a step exchanges, from `communication.replicated`; 0 if unknown.
        steps: the steps in use.
        rows: the rows of the steps to look at.
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        calls: the exchanges, from `communication.calls`.
    """
    passes = intervals.union(stepping(spans, steps, Category.BACKWARD))
    place = intervals.locate(passes["start_ns"], steps.table).alias("step").drop_nulls()
    counts = place.value_counts(name="passes").filter(pl.col("step").is_in(rows), pl.col("passes") > 1)
    if not gradients or counts.is_empty():
        return None
    sent = calls.filter(pl.col("operation") == _OPERATION).sort("number").group_by("step", "group")
    series = sent.agg(pl.col("bytes")).join(counts, on="step")
    each = [
        (passes, sum(sizes[:part]))
        for sizes, passes in series.select("bytes", "passes").iter_rows()
        if (part := len(sizes) // passes) and sizes == sizes[:part] * passes and sum(sizes[:part]) >= BYTES * gradients
    ]
    exchanging = calls.filter(pl.col("step").is_in(rows))["step"].n_unique()
    if not each or len(each) < STEPS * exchanging:
        return None
    medians = pl.DataFrame(each, schema=["passes", "bytes"], orient="row").select(pl.all().median().cast(pl.Int64))
    return Exchanged(*medians.row(0))
