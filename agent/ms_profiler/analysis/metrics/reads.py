"""Find reads of tensor values and waits for the device. During both, the device's queue may run empty."""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import bounds, intervals
from ms_profiler.analysis.metrics.phases import NAMES, innermost
from ms_profiler.analysis.metrics.steps import Steps, stepping
from ms_profiler.store.format import Category

#: PyTorch's operator that copies one value to the host. It waits if the value is on a device, but not if the value is
#: on a processor
READ: Final = "aten::_local_scalar_dense"
#: begin of the names of spans that are reads of a tensor
SPAN: Final = "Tensor."
#: if two reads are less than this many ns apart, there is no time to queue much work between them. On a busy machine,
#: queueing one operator may take so long
NEAR: Final = 200_000
#: the same limit if the host queues nothing between two reads, ten times the time that a device needs to return a value
#: to the host. In a longer gap, the host works with the values: some histograms of numpy take 0.3 ms
BARE: Final = 100_000
#: If fewer than this many operators lie between two reads, the queue runs empty, and launching them counts as a part of
#: reading. With a limit of 32 operators of 1 ms each, the whole step of a small network of MindSpore was a wait for its
#: loss (42 % of the step): 31 kernels between two reads. A read each 50 steps was not faster
FEW: Final = 8
#: phases in which reads of values come from samplers, guards of compiled code, optimizers' counters or saved tensors
_OTHERS: Final = [
    NAMES[category] for category in (Category.DATA, Category.COMPILE, Category.OPTIMIZER, Category.CHECKPOINT)
]


def reads(spans: pl.DataFrame, names: pl.Series, cut: pl.DataFrame, steps: Steps) -> pl.DataFrame:
    """Return the reads and waits of the stepping thread in the steps, sorted by start.

    Args:
        spans: table of spans, with the columns of `tables.SPANS`.
        names: texts by row.
        cut: the steps cut into phases, from `phases.pieces`.
        steps: the steps in use.

    Returns:
        `name` (text), `module` (path of the innermost module around the read, null outside of all modules), `step` (row
        of `steps.table`), `start_ns`, `end_ns`.
    """
    own = stepping(spans, steps)
    reading = (names == READ).gather(own["name"]) & (own["category"] == int(Category.OP))
    # a read of a tensor counts once, as its span, or not at all if `readers.host_reads` found that it does not wait
    whole = own["category"].is_in([int(Category.SYNC), int(Category.OTHER)])
    whole &= names.str.starts_with(SPAN).gather(own["name"])
    inside = intervals.locate(own["start_ns"], intervals.union(own.filter(whole))).is_not_null()
    found = own.filter((reading & ~inside) | (pl.col("category") == int(Category.SYNC))).sort("start_ns")
    piece = intervals.locate(found["start_ns"], cut)
    modules = own.filter(pl.col("category") == int(Category.MODULE))
    module = pl.repeat(None, found.height, dtype=pl.UInt32, eager=True)
    if not modules.is_empty() and not found.is_empty():
        parts = innermost(modules, "name")
        module = parts["name"].gather(intervals.locate(found["start_ns"], parts))
    return (
        found.select(
            names.gather(found["name"]).alias("name"),
            names.gather(module).alias("module"),
            cut["step"].gather(piece).alias("step"),
            *intervals.BOUNDS,
            cut["phase"].gather(piece).alias("phase"),
        )
        .filter(pl.col("step").is_not_null(), ~pl.col("phase").is_in(_OTHERS))
        .drop("phase")
    )


def drained(found: pl.DataFrame, kernels: pl.DataFrame, starts: pl.Series, cut: pl.DataFrame) -> pl.DataFrame:
    """Return the intervals in which a read kept the host from queueing work: `start_ns`, `end_ns`, without overlap.

    There are two kinds of intervals:

    - From the start of a read to the start of the next read, if the reads are close together. n operators lie between
      them, with n < `FEW`, and the gap between them is shorter than `NEAR` * (1 + n), or than `BARE` if n is known to
      be 0. In a longer gap, the host did something else. No compiled graph that is a phase of its own runs between
      them: it queues its kernels itself.
    - From the end of a read to the start of the next kernel, if the last queued kernel ended during the read, the gap
      is at most `bounds.GAP`, and no other read lies in it. Reads that are less than `BARE` apart count as one read.

    Args:
        found: the reads and waits, from `reads`.
        kernels: intervals of kernels of a device, without overlap, sorted by time; empty if there are none.
        starts: the starts of operators, or kernels, in order; empty if unknown.
        cut: the same steps cut into phases, from `phases.pieces`.
    """
    pairs = found.with_columns(following=pl.col("start_ns").shift(-1)).drop_nulls("following")
    between = starts.search_sorted(pairs["following"]).cast(pl.Int64) - starts.search_sorted(pairs["start_ns"])
    queued = between.clip(0) if len(starts) else pl.repeat(0, pairs.height, dtype=pl.Int64, eager=True)
    limit = NEAR * (1 + queued)
    if len(starts):
        limit = limit.set(queued == 0, BARE)
    near = pairs.filter(queued < FEW, pairs["following"] - pairs["end_ns"] < limit)
    graphs = cut.filter(pl.col("phase") == NAMES[Category.GRAPH]).select(graph_ns="start_ns").sort("graph_ns")
    last = near.join_asof(graphs, left_on="following", right_on="graph_ns")
    near = last.filter((pl.col("graph_ns") < pl.col("start_ns")).fill_null(True))
    parts = [near.select("start_ns", pl.col("following").alias("end_ns"))]
    if not kernels.is_empty():
        parts.append(_until_the_next(found, kernels))
    return intervals.union(pl.concat(parts))


def _until_the_next(found: pl.DataFrame, kernels: pl.DataFrame) -> pl.DataFrame:
    """Return the intervals of the second kind of `drained`: `start_ns`, `end_ns`."""
    last = kernels.select(pl.col("end_ns").alias("last_ns"), pl.col("end_ns"))
    after = (
        found.sort("start_ns")
        .with_columns(
            whole=(pl.col("start_ns") - pl.col("end_ns").cum_max().shift(1) >= BARE).fill_null(True).cum_sum()
        )
        .group_by("whole")
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        .sort("start_ns")
        .with_columns(following=pl.col("start_ns").shift(-1))
        .join_asof(last, on="end_ns")
        .filter(pl.col("last_ns") >= pl.col("start_ns"))
        .select("following", start_ns="end_ns")
    )
    later = kernels.select(pl.col("start_ns").alias("next_ns"), pl.col("start_ns"))
    return (
        after.join_asof(later, on="start_ns", strategy="forward")
        .drop_nulls("next_ns")
        .filter(pl.col("next_ns") - pl.col("start_ns") <= bounds.GAP)
        .filter((pl.col("following") >= pl.col("next_ns")).fill_null(True))
        .select("start_ns", pl.col("next_ns").alias("end_ns"))
    )
