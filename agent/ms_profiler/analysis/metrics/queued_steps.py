"""Find the step that queued each kernel: when a kernel runs, the host may be several steps ahead."""

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.scopes import Part
from ms_profiler.analysis.metrics.steps import Steps


def of(kernels: pl.DataFrame, spans: pl.DataFrame, steps: Steps) -> pl.Series:
    """Return the step that queued each kernel, `step`: a row of `Steps.table`, null outside of all steps.

    The queue is first in, first out. So if the call that queued a kernel is unknown, the kernel was queued between its
    nearest neighbours whose calls are known. If these neighbours belong to different steps, a kernel of a forward pass
    belongs to the later step, because a step begins with its forward pass. Any other kernel belongs to the earlier
    step. If no call is known at all, a kernel belongs to the step in which it began to run.

    Args:
        kernels: kernels of the process that runs the steps, with the columns of `tables.KERNELS`.
        spans: the spans to whose rows the `launch` of a kernel refers.
        steps: the steps in use.
    """
    queued = intervals.locate(spans["start_ns"].gather(kernels["launch"]), steps.table)
    ordered = kernels.select("lane", "start_ns", "part", "step", queued=queued).with_row_index("row")
    ordered = ordered.sort("lane", "start_ns", "row")
    found = ordered.select(
        "row",
        "step",
        "queued",
        forward=pl.col("part") == int(Part.FORWARD),
        before=pl.col("queued").forward_fill().over("lane"),
        after=pl.col("queued").backward_fill().over("lane"),
    ).sort("row")
    between = pl.when("forward").then(pl.coalesce("after", "before")).otherwise("before")
    # a kernel cannot run before it is queued
    known = pl.when(between <= pl.col("step")).then(between)
    return found.select(pl.coalesce("queued", known, "step").alias("step")).to_series()
