"""Find steps that exchange the gradients of replicated or sharded parameters in each of several backward passes.

A script that accumulates gradients runs several backward passes before a step of its optimizer. Without `no_sync`, each
of these passes exchanges all gradients, although only the sum after the last pass matters.

The parameters are replicated by DistributedDataParallel, or sharded by `fully_shard` or FullyShardedDataParallel. The
names of the regions that the latter two record tell that a job uses them.
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
_REPLICAS: Final = "AllReduce"
_SHARDS: Final = "ReduceScatter"
#: begins of the names of PyTorch's regions in which sharded gradients are exchanged, see
#: `torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py` and `torch/distributed/fsdp/_runtime_utils.py`
_REGIONS: Final = ("FSDP::post_backward", "FullyShardedDataParallel._post_backward_hook")


class Exchanged(NamedTuple):
    """The backward passes of a step, each of which exchanges the gradients.

    Attributes:
        passes: number of backward passes of a step (median).
        bytes: number of bytes that each pass exchanges (median).
        sharded: whether the parameters are sharded.
    """

    passes: int
    bytes: int
    sharded: bool = False


def found(
    gradients: int, steps: Steps, rows: list[int], spans: pl.DataFrame, calls: pl.DataFrame, names: pl.Series
) -> Exchanged | None:
    """Return the passes of a step that each exchange the gradients; None if a step exchanges them at most once.

    The exchanges of a step form one series for each group. Each pass has its part of the series: as many exchanges, and
    of the same sizes, as each other pass.

    Args:
        gradients: the bytes of the gradients that a step exchanges, from `communication.replicated`; 0 if unknown.
        steps: the steps in use.
        rows: the rows of the steps to look at.
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        calls: the exchanges, from `communication.calls`.
        names: the names of the recording.
    """
    passes = intervals.union(stepping(spans, steps, Category.BACKWARD))
    place = intervals.locate(passes["start_ns"], steps.table).alias("step").drop_nulls()
    counts = place.value_counts(name="passes").filter(pl.col("step").is_in(rows), pl.col("passes") > 1)
    sharded = any(names.str.starts_with(region).fill_null(False).any() for region in _REGIONS)
    if not (gradients or sharded) or counts.is_empty():
        return None
    if sharded:
        return _shards(passes, calls.filter(pl.col("step").is_in(rows)), counts)
    sent = calls.filter(pl.col("operation") == _REPLICAS).sort("number").group_by("step", "group")
    series = sent.agg(pl.col("bytes")).join(counts, on="step")
    each = [
        (passes, sum(sizes[:part]))
        for sizes, passes in series.select("bytes", "passes").iter_rows()
        if (part := len(sizes) // passes) and sizes == sizes[:part] * passes and sum(sizes[:part]) >= BYTES * gradients
    ]
    exchanging = calls.filter(pl.col("step").is_in(rows))["step"].n_unique()
    return _usual(each, exchanging, False)


def _shards(passes: pl.DataFrame, calls: pl.DataFrame, counts: pl.DataFrame) -> Exchanged | None:
    """Return the passes of a step that each exchange sharded gradients, as `found` does.

    Layers of the same size make exchanges of the same size. So an exchange belongs to the pass in which it begins. A
    group that also exchanges outside of the passes does not exchange gradients, but activations.

    Args:
        passes: the backward passes.
        calls: the exchanges of the steps to look at.
        counts: `step` and `passes`, the number of backward passes, for each step with several.
    """
    sent = calls.filter(pl.col("operation") == _SHARDS).sort("start_ns")
    sent = sent.with_columns(intervals.locate(sent["start_ns"], passes).alias("pass"))
    sent = sent.filter(pl.col("pass").is_not_null().all().over("group"))
    sums = sent.group_by("step", "group", "pass").agg(pl.len().alias("exchanges"), pl.col("bytes").sum())
    series = sums.group_by("step", "group").agg(
        pl.len().alias("exchanging"),
        pl.col("exchanges").n_unique().alias("kinds"),
        pl.col("bytes").n_unique().alias("sizes"),
        pl.col("bytes").first(),
    )
    alike = series.join(counts, on="step").filter(
        pl.col("exchanging") == pl.col("passes"), pl.col("kinds") == 1, pl.col("sizes") == 1
    )
    # several groups, for example of parts of a model: their bytes add up
    each = alike.group_by("step", "passes").agg(pl.col("bytes").sum()).select("passes", "bytes")
    return _usual(each.rows(), sent["step"].n_unique(), True)


def _usual(each: list[tuple[int, int]], exchanging: int, sharded: bool) -> Exchanged | None:
    """Return the medians; None if few steps exchange in each of their passes.

    Args:
        each: passes and bytes of the steps that exchange in each of their passes.
        exchanging: the number of steps with exchanges.
        sharded: whether the parameters are sharded.
    """
    if not each or len(each) < STEPS * exchanging:
        return None
    medians = pl.DataFrame(each, schema=["passes", "bytes"], orient="row").select(pl.all().median().cast(pl.Int64))
    passes, count = medians.row(0)
    return Exchanged(passes, count, sharded)
