"""Find for how many steps each compared step stands, where the ranks recorded only a sample of their steps."""

import polars as pl


def made(steps: pl.DataFrame) -> int:
    """Return the number of steps that at least two ranks made; 0 if no rank recorded only a sample of its steps.

    Args:
        steps: the steps of all ranks: `rank`, and the columns of `rank_account.STEPS`.
    """
    if not steps["unseen"].any():
        return 0
    return steps.filter(pl.len().over("step") > 1)["step"].n_unique()


def weights(steps: pl.DataFrame, compared: pl.DataFrame) -> pl.DataFrame:
    """Return `step` and `weight`: the number of steps for which each compared step stands, rounded.

    Compared steps without a gap between them are a burst. A burst stands for its own steps, and for all steps to which
    it is the nearest burst. If all ranks recorded all steps, each step stands for itself.

    Args:
        steps: the steps of all ranks: `rank`, and the columns of `rank_account.STEPS`.
        compared: the rows of the steps whose own times are known for at least two ranks.
    """
    known = compared.select(pl.col("step").unique().sort())
    if known.is_empty() or not made(steps):
        return known.with_columns(weight=pl.lit(1, pl.Int64))
    bursts = known.with_columns(burst=(pl.col("step").diff() > 1).fill_null(False).cum_sum())
    every = steps.select(pl.col("step").unique().sort())
    near = every.join_asof(bursts, on="step", strategy="nearest").group_by("burst").agg(pl.len().alias("all"))
    weight = (pl.col("all") / pl.len().over("burst")).round().cast(pl.Int64).alias("weight")
    return bursts.join(near, on="burst", maintain_order="left").select("step", weight)
