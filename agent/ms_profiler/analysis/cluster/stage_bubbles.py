"""Compare the bubbles of a pipeline's stages. A bubble is the time in which a rank only waits for its neighbours.

`stage_waits` computes the bubbles. The number of a rank's stage is the index of the rank in its pipeline's group.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from ms_profiler.analysis.cluster import lateness, parallel_groups
from ms_profiler.analysis.cluster.lateness import Late
from ms_profiler.analysis.cluster.rank_account import RankAccount

_LENGTH: Final = pl.col("end_ns") - pl.col("start_ns")


@dataclass(frozen=True)
class Stage:
    """One stage of a pipeline.

    Attributes:
        number: its index in the pipeline, from 0.
        ranks: the ranks of the stage that have a result.
        bubble_ns: the time of its bubbles (waits for neighbours) over all steps; the bubble of a step is the mean over
            the stage's ranks.
        share: the bubbles as a share of the time of its steps.
    """

    number: int
    ranks: tuple[int, ...]
    bubble_ns: int
    share: float


@dataclass(frozen=True)
class Pipeline:
    """The stages of a job's pipeline, with their bubbles (the time in which they only wait for neighbours).

    Attributes:
        known_by: the purposes of the groups that define the stages.
        steps: the number of steps in which the bubbles are known.
        stages: the stages that have a result.
        slow: the stages for which the other stages wait, as `lateness` finds them; their own bubbles are short.
        table: `stage`, `step`, `bubble_ns`, `step_ns`; the last two are means over the ranks of the stage.
    """

    known_by: tuple[str, ...]
    steps: int
    stages: list[Stage]
    slow: list[Late]
    table: pl.DataFrame = field(repr=False)


def pipeline(accounts: Mapping[int, RankAccount]) -> Pipeline | None:
    """Return the stages of a job's pipeline with their bubbles; None if the stages are not known for certain.

    A bubble is the time in which a rank only waits for its neighbours.

    Args:
        accounts: rank -> the figures of the rank (its account).
    """
    kind = parallel_groups.PIPELINE
    found = {rank: parallel_groups.of_kind(known.groups, known.purposes, kind) for rank, known in accounts.items()}
    members = {tuple(accounts[rank].groups[name]) for rank, names in found.items() for name in names}
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
    if table["step"].n_unique() > 1:  # the first step is left out, because ranks begin it at different times
        table = table.filter(pl.col("step") > pl.col("step").min())
    if table["stage"].n_unique() < 2:
        return None
    means = table.group_by("stage", "step").agg(pl.col("bubble_ns", "step_ns").mean().round().cast(pl.Int64))
    sums = means.group_by("stage").agg(pl.col("bubble_ns", "step_ns").sum()).sort("stage")
    listed = [
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
    return Pipeline(tuple(purposes), judged.steps, listed, judged.late, means.sort("stage", "step"))
