"""Compute the bubbles of the stages of a pipeline: the time in which a rank only waits for its neighbours.

Bubble of a rank = the time of a step in which a message within the pipeline's group, or a wait for one, lasts, while
the rank neither computes nor exchanges anything else. It is the idle time that GPipe
(https://arxiv.org/abs/1811.06965, section 2.3) and Megatron-LM (https://arxiv.org/abs/2104.04473, section 2.2) call
bubble, as far as the rank spends it in messages; the transfer itself counts too. For results of Ascend's tools it is
the column `Bubble`, the sum of the receives, at most `Communication(Not Overlapped)`. The stage of a rank is its
place in the group.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import polars as pl

from ms_profiler.analysis.cluster import lateness, parallel_groups
from ms_profiler.analysis.cluster.lateness import Late
from ms_profiler.analysis.metrics import intervals

if TYPE_CHECKING:
    from ms_profiler.analysis.cluster.rank_account import RankAccount
    from ms_profiler.analysis.metrics.measures import Measures

#: operations of messages from one rank to another, and the waits for queued ones; NCCL has one kernel for all of them
_MESSAGES: Final = ("send", "receive", "batchsendreceive", "sendrecv", "wait for send", "wait for receive")
_LENGTH: Final = pl.col("end_ns") - pl.col("start_ns")


@dataclass(frozen=True)
class Stage:
    """One stage of a pipeline.

    Attributes:
        number: its place in the pipeline, from 0.
        ranks: its ranks that have a result.
        bubble_ns: its bubbles over all steps, the mean of its ranks.
        share: the bubbles as a share of the time of its steps.
    """

    number: int
    ranks: tuple[int, ...]
    bubble_ns: int
    share: float


@dataclass(frozen=True)
class Pipeline:
    """The stages of a job.

    Attributes:
        known_by: the purposes of the groups that tell the stages.
        steps: the steps in which the bubbles are known.
        stages: the stages that have a result.
        slow: the stages that have the fewest bubbles, because others wait for them, as late ranks are found.
        table: `stage`, `step`, `bubble_ns`, `step_ns` (means of the ranks).
    """

    known_by: tuple[str, ...]
    steps: int
    stages: list[Stage]
    slow: list[Late]
    table: pl.DataFrame = field(repr=False)


def by_step(measures: "Measures", exchanges: pl.DataFrame, pipelines: Collection[str]) -> pl.DataFrame:
    """Return `step` and `bubble_ns` of a rank; empty where it sent no message within a pipeline.

    On a processor only calls of PyTorch last as long as their message.

    Args:
        measures: the measures of its run.
        exchanges: `exchanged.EXCHANGES`.
        pipelines: the names of the groups that are pipelines.
    """
    recording = measures.recording
    timed = recording.device is not None or recording.info.framework.get("name") == "torch"
    messages = pl.col("group").is_in(list(pipelines)) & pl.col("operation").is_in(_MESSAGES)
    computing = measures.stream.states.filter("computing").select(intervals.BOUNDS)
    return bubbles(exchanges.filter(messages & timed), exchanges.filter(~messages), computing, measures.steps.table)


def bubbles(messages: pl.DataFrame, others: pl.DataFrame, computing: pl.DataFrame, table: pl.DataFrame) -> pl.DataFrame:
    """Return `step` and `bubble_ns` of each recorded step; empty without messages.

    Args:
        messages: when messages or waits for them lasted.
        others: the other exchanges.
        computing: when the rank computed.
        table: `number`, `start_ns`, `end_ns`, `recorded` of steps, apart from each other and by start.
    """
    if messages.is_empty():
        return pl.DataFrame(schema={"step": pl.Int64, "bubble_ns": pl.Int64})
    busy = pl.concat([others.select(intervals.BOUNDS), computing.select(intervals.BOUNDS)])
    waits = intervals.subtract(intervals.union(messages), intervals.union(busy))
    known = table.filter("recorded")
    line = intervals.timeline({"wait": waits, "step": known}).filter(pl.col("wait") > 0, pl.col("step") > 0)
    place = intervals.locate(line["start_ns"], known)
    sums = line.with_columns(step=known["number"].gather(place).cast(pl.Int64)).group_by("step")
    numbers = known.select(pl.col("number").cast(pl.Int64).alias("step"))
    found = numbers.join(sums.agg(_LENGTH.sum().alias("bubble_ns")), on="step", how="left", maintain_order="left")
    return found.with_columns(pl.col("bubble_ns").fill_null(0).cast(pl.Int64))


def pipeline(accounts: Mapping[int, "RankAccount"]) -> Pipeline | None:
    """Return the stages of a job with their bubbles; None where the stages are not known for certain.

    Args:
        accounts: the accounts, by rank.
    """
    found = {rank: parallel_groups.groups(known, parallel_groups.PIPELINE) for rank, known in accounts.items()}
    members = {tuple(accounts[rank].groups[name]) for rank, told in found.items() for name in told}
    ranks = [rank for group in members for rank in group]
    if not members or len(set(map(len, members))) > 1 or len(ranks) > len(set(ranks)):
        return None
    stages = {rank: number for group in members for number, rank in enumerate(group)}
    tables = [
        known.steps.drop_nulls("bubble_ns").select(
            pl.lit(rank, pl.Int64).alias("rank"),
            pl.lit(stages[rank], pl.Int64).alias("stage"),
            "step",
            "bubble_ns",
            _LENGTH.alias("step_ns"),
        )
        for rank, known in accounts.items()
        if rank in stages
    ]
    table = pl.concat(tables)
    if table["stage"].n_unique() < 2:
        return None
    means = table.group_by("stage", "step").agg(pl.col("bubble_ns", "step_ns").mean().round().cast(pl.Int64))
    sums = means.group_by("stage").agg(pl.col("bubble_ns", "step_ns").sum()).sort("stage")
    told = [
        Stage(stage, tuple(sorted(set(own))), bubble, bubble / max(length, 1))
        for (stage, bubble, length), own in zip(
            sums.iter_rows(),
            table.sort("stage").group_by("stage", maintain_order=True).agg("rank")["rank"],
            strict=True,
        )
    ]
    own = means.select(pl.col("stage").alias("rank"), "step", own_ns=pl.col("step_ns") - pl.col("bubble_ns"))
    judged = lateness.lateness(own, int(sums["step_ns"].median() or 0))  # type: ignore[arg-type]
    purposes = sorted({text for names in found.values() for text in names.values()})
    return Pipeline(tuple(purposes), judged.steps, told, judged.late, means.sort("stage", "step"))
