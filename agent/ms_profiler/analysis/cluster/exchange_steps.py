"""Gather the parts of a rank's steps up to the next step with an exchange.

A job may exchange in some steps only, for example when ranks average their parameters in each eighth step. The own time
of a rank in such a step includes the steps before it, and so do its parts.
"""

from collections.abc import Mapping
from typing import Final

import polars as pl

from ms_profiler.analysis.cluster import step_gaps
from ms_profiler.analysis.cluster.rank_account import RankAccount

#: how many steps a step with an exchange stands for, and how many of these were examined
COUNTS: Final = ("steps", "examined")


def gathered(accounts: Mapping[int, RankAccount]) -> pl.DataFrame:
    """Return the parts of all ranks' steps, such as computing or waiting for data, gathered to steps with an exchange.

    With `overhead_budget`, the parts of some of the gathered steps may be unknown. Then the parts of the examined ones
    are multiplied by (number of steps) / (number of examined steps). The time between steps is known everywhere.

    Args:
        accounts: rank -> its figures.

    Returns:
        `rank`, and the columns of `rank_account.PARTS` and `COUNTS`.
    """
    tables = [_gathered(known).with_columns(rank=pl.lit(known.rank, pl.Int64)) for known in accounts.values()]
    return pl.concat(tables)


def _gathered(known: RankAccount) -> pl.DataFrame:
    """Return the parts of a rank's steps, as `gathered` says, without `rank`."""
    met = known.steps.filter(pl.col("exchange_ns").is_not_null()).select("own_ns", until="step").sort("until")
    until = pl.when(pl.col("own_ns").is_not_null()).then("until").otherwise("step")
    every = known.steps.select("step").sort("step").join_asof(met, left_on="step", right_on="until", strategy="forward")
    seen = known.parts.filter(~pl.col("part").is_in(step_gaps.ALL)).select("step").unique().with_columns(seen=True)
    every = every.select("step", until=until).join(seen, on="step", how="left")
    counts = every.group_by("until").agg(pl.col("seen").sum().alias("examined"), pl.len().alias("steps"))
    placed = known.parts.join(every.select("step", "until"), on="step").join(counts, on="until")
    inside = ~pl.col("part").is_in(step_gaps.PARTS) & (pl.col("examined") > 0)
    scaled = pl.when(inside).then(pl.col("duration_ns") * pl.col("steps") / pl.col("examined")).otherwise("duration_ns")
    sums = placed.group_by("until", "part").agg(scaled.sum().round().cast(pl.Int64), pl.col(*COUNTS).first())
    return sums.sort("until", "part").rename({"until": "step"}).select(*known.parts.columns, *COUNTS)
