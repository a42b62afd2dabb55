"""Estimate sums over all steps of a run in which only some steps were recorded, with their standard errors.

The job cut its steps into stretches of consecutive steps. In each stretch, it sampled (recorded) a burst of steps at a
random position (`job.bursts`). So the sampled steps of a stretch stand for all its steps. In terms of statistics, the
stretches are the strata of a stratified estimate. The standard error follows from the differences between one stretch
and the next, as for systematic samples (Wolter, Introduction to Variance Estimation, 8.2, estimator v2). The time in a
long gap between two steps, for example an evaluation, is estimated by `metrics.between_steps`.
"""

from dataclasses import dataclass
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import between_steps, interruptions, intervals, known_waits, length_ratios
from ms_profiler.analysis.metrics.steps import Steps, stepping
from ms_profiler.store.format import CATEGORY_FINE, Category, StepSource

#: a run is divided into at most this number of parts; the differences between neighbouring parts give the error
PARTS: Final = 256
#: The place of a span is a number that tells how the span counts. `LEFT_OUT`: not at all, because its step was not
#: sampled. `EXACT`: once. `FIRST` + n: scaled by the weights of its step; n is the row of the first recorded step with
#: these weights. With N the number of steps, `FIRST` + N + n: scaled as a part of a long gap between steps; n is
#: the row of the part in `between_steps.times`.
LEFT_OUT, EXACT, FIRST = 0, 1, 2


@dataclass(frozen=True)
class Sample:
    """How the recorded steps of a run stand for all its steps.

    Attributes:
        rows: the recorded steps: `row` of `Steps.table`, `part`, the weights `weight` of counts, `timed` of times and
            `plain`, and `first`, the row of the step with which its sums are added up (`length_ratios.weighted`).
        parts: the parts of the run, in the order of time: `part`, `steps` (their number), `share` (of the recorded
            ones) and `doubt`, as `estimate` says.
        height: the number of rows of `Steps.table`.
    """

    rows: pl.DataFrame
    parts: pl.DataFrame
    height: int


def sampled(steps: Steps) -> bool:
    """Return whether the job left out the records of some steps because of `overhead_budget`."""
    return bool((steps.table["content"] == "coarse").any())


def strata(table: pl.DataFrame) -> pl.Series:
    """Return the number of each step's stratum, which is the stretch of steps in which one burst was sampled.

    A stretch without a sampled step joins the stretch before it. If no stretch before it has a sampled step, it joins
    the stretch after it.

    Args:
        table: the table of `Steps`.
    """
    some = pl.col("recorded").any().over("stretch")
    own = pl.when(some).then("stretch").forward_fill().backward_fill().fill_null(0).rle_id()
    return table.select(own.alias("stratum")).to_series()


def weights(table: pl.DataFrame) -> pl.Series:
    """Return the weight of each recorded step: how many steps it stands for.

    weight = steps of its stretch / recorded steps of its stretch. Steps that are not recorded have no weight (null).
    Steps that a schedule left out are not counted.

    Args:
        table: the table of `Steps`.
    """
    wanted = pl.col("content") != "times"
    marked = table.with_columns(strata(table))
    weight = (wanted.sum() / pl.col("recorded").sum()).over("stratum")
    return marked.select(pl.when("recorded").then(weight).alias("weight")).to_series()


def cold(steps: Steps, spans: pl.DataFrame) -> list[int]:
    """Return the recorded steps (rows of `Steps.table`) that took longer because caches were cold.

    They are first steps of bursts: until then, the recorder's code was in no cache.

    Args:
        steps: the steps in use.
        spans: table of the run's spans; only the coarse ones matter.
    """
    return sample(steps, spans).rows.filter("cold")["row"].to_list() if sampled(steps) else []


def rested(steps: Steps, spans: pl.DataFrame, left_out: pl.DataFrame) -> pl.Series:
    """Return for each step that was not sampled whether hooks were at rest in it, Boolean.

    Hooks rest only if each cycle of an optimizer ends a step. In a step without any pass, they were at rest.

    Args:
        steps: the steps in use.
        spans: table of the run's spans; only the coarse ones matter.
        left_out: the steps that were not sampled.
    """
    own = stepping(spans, steps, Category.FORWARD, Category.BACKWARD)
    some = intervals.locate(own["start_ns"], left_out).drop_nulls().unique()
    rests = steps.source == StepSource.OPTIMIZER_CYCLE
    return pl.int_range(left_out.height, dtype=pl.UInt32, eager=True).is_in(some.implode()).not_() & rests


def windows(steps: Steps, spans: pl.DataFrame) -> pl.DataFrame:
    """Return the intervals that decide how fine-grained spans count: `start_ns`, `end_ns` and `place`, sorted by time.

    The job decides at the end of a step whether it records the next step and the gap before it. So a gap counts as the
    next step, unless the gap is long.

    Args:
        steps: the steps in use.
        spans: table of the run's spans; only the coarse ones matter.
    """
    table = steps.table.with_row_index("row")
    if sampled(steps):
        first = table.join(sample(steps, spans).rows, on="row", how="left", maintain_order="left")["first"]
    else:
        first = table.select(pl.when("recorded").then(pl.lit(0))).to_series()
    of_step = (first.cast(pl.UInt64) + FIRST).fill_null(LEFT_OUT).alias("place")
    found = [table.select("start_ns", "end_ns", of_step)]
    if sampled(steps):
        gaps, cut = between_steps.table(steps, spans), between_steps.pieces(steps, spans)
        numbered = between_steps.times(cut).select("row", "part").with_row_index("own")
        own = pl.col("own").cast(pl.UInt64) + FIRST + table.height
        placed = pl.concat([gaps.filter(~pl.col("long")), cut.join(numbered, on=["row", "part"])], how="diagonal")
        recorded = of_step.extend_constant(FIRST, 1).gather(placed["row"])
        known = pl.when(recorded == LEFT_OUT).then(LEFT_OUT).otherwise(pl.coalesce(own, recorded))
        found.append(placed.select("start_ns", "end_ns", known.cast(pl.UInt64).alias("place")))
    return pl.concat(found).filter(pl.col("end_ns") > pl.col("start_ns")).sort("start_ns")


def places(spans: pl.DataFrame, steps: Steps, parts: pl.DataFrame) -> pl.Series:
    """Return the place of each fine-grained span, which tells how it counts: `LEFT_OUT`, `EXACT`, or `FIRST` + n.

    Args:
        spans: table with the columns `process` and `start_ns`.
        steps: the steps in use.
        parts: the intervals with their places, from `windows`.
    """
    found = parts["place"].gather(intervals.locate(spans["start_ns"], parts)).fill_null(EXACT)
    return found.zip_with(spans["process"] == steps.process, pl.Series([EXACT], dtype=pl.UInt64)).alias("place")


def sum_up(spans: pl.DataFrame, steps: Steps) -> pl.DataFrame:
    """Add up fine-grained spans by `place`, `name` and `category`: `count`, `total_ns` and `self_ns`.

    Args:
        spans: the spans of `operators.self_times`.
        steps: the steps in use.
    """
    fine = spans.filter(pl.col("category") >= CATEGORY_FINE)
    once = ~pl.col("repeated")
    return (
        fine.with_columns(places(fine, steps, windows(steps, spans)))
        .group_by("place", "name", "category")
        .agg(
            once.sum().alias("count"),
            pl.col("duration_ns").filter(once).sum().alias("total_ns"),
            pl.col("self_ns").sum(),
        )
    )


def between(sums: pl.DataFrame, steps: Steps, spans: pl.DataFrame) -> between_steps.Gaps:
    """Return the long gaps between steps.

    Args:
        sums: the sums of fine-grained spans by `place`.
        steps: the steps in use.
        spans: the coarse spans of the run.
    """
    least = FIRST + steps.table.height
    return between_steps.found(steps, spans, sums["place"].filter(sums["place"] >= least).unique() - least)


def totals(
    sums: pl.DataFrame,
    keys: list[str],
    columns: list[str],
    sample: Sample,
    between: between_steps.Gaps,
) -> pl.DataFrame:
    """Return estimated sums over the whole run, and the standard error of each column as `<column>_error`.

    The result also has `keys` and `columns`. Work of other processes, and work outside of all steps and gaps, is added
    without scaling.

    Args:
        sums: the sums by `keys` and `place` (which tells how a span counts).
        keys: the columns to group by.
        columns: the columns to sum up.
        sample: how the recorded steps stand for all steps.
        between: the long gaps between steps, from `between_steps.found`.
    """
    row, height = (pl.col("place") - FIRST).cast(pl.UInt32), sample.height
    placed = sums.filter(pl.col("place") >= FIRST).with_columns(row=row)
    scaled = estimate(placed.filter(pl.col("row") < height), keys, columns, sample)
    apart = placed.filter(pl.col("row") >= height).with_columns(own=pl.col("row") - height).drop("row")
    outside = between_steps.estimate(apart.join(between.times.with_row_index("own"), on="own"), keys, columns, between)
    errors = [f"{column}_error" for column in columns]
    exact = sums.filter(pl.col("place") == EXACT).select(*keys, pl.col(columns).cast(pl.Float64))
    exact = exact.with_columns(pl.lit(0.0).alias(name) for name in errors)
    every = pl.concat([scaled, outside, exact], how="diagonal_relaxed")
    # Polars' sum of nulls is 0, so unknown errors are kept null here
    square = [pl.when(pl.col(name).is_not_null().all()).then(pl.col(name).pow(2).sum()) for name in errors]
    known = [each.sqrt().alias(name) for each, name in zip(square, errors, strict=True)]
    return every.group_by(keys).agg(pl.col(columns).sum(), *known)


def sample(steps: Steps, spans: pl.DataFrame) -> Sample:
    """Return how the recorded steps stand for all steps.

    Args:
        steps: the steps in use.
        spans: table of the run's spans; only the coarse ones matter.
    """
    every = steps.table.with_row_index("row").with_columns(length=known_waits.lengths(spans, steps))
    table = every.filter(pl.col("content") != "times")
    marked = table.select("row", "recorded", "length", weights(table), strata(table))
    count = max(int(marked["stratum"].n_unique()), 1)
    marked = marked.with_columns(part=pl.col("stratum") * min(PARTS, count) // count)
    rows, doubts = length_ratios.weighted(marked)
    parts = marked.group_by("part").agg(pl.len().alias("steps"), pl.col("recorded").mean().alias("share")).sort("part")
    return Sample(rows, parts.join(doubts, on="part", how="left", maintain_order="left"), steps.table.height)


def estimate(values: pl.DataFrame, keys: list[str], columns: list[str], sample: Sample) -> pl.DataFrame:
    """Return sums over all steps, and the standard error of each sum.

        sum     = sum over the recorded steps of (weight * value)
        error^2 = sum over parts of max(steps^2 * (1 - s) * d / 2, (sum of the part - its sum with plain weights)^2)
                  + (sum over parts of ((1 - s) * e * sum of the part))^2 + (sum of single interruptions)^2

    The weights of times follow from the lengths of all steps (`length_ratios`); the weight of counts is
    steps / recorded steps of a stratum. A stratum is a stretch of steps in which some steps were sampled. A part is a
    stratum, or several strata in a run with more than `PARTS` strata. s is the share of recorded steps in a part. d is
    the mean of two squared differences of the value per step: one to the part before, one to the part after. e is the
    doubt about the cost of recording. Parts whose steps were all recorded have no error, and are left out. The terms
    with plain weights and e hold for times (columns that end with "ns"): one burst that stands for thousands of steps
    has neighbours, but they tell little about how the time of these steps is divided.

    Args:
        values: the sums of recorded steps by `keys` and `row` of `Steps.table`; a missing row counts as 0.
        keys: the columns to group by.
        columns: the columns to sum up.
        sample: how the recorded steps stand for all steps.

    Returns:
        `keys`, `columns` as Float64, and `<column>_error` for each column. The error is null if only one part has steps
        that were not recorded, because this part has no neighbour.
    """
    share, parts = pl.col("share"), sample.parts
    times = [column for column in columns if column.endswith("ns")]
    weighted = interruptions.without(values.join(sample.rows, on="row"), keys, times)
    weight = {column: pl.col("timed" if column in times else "weight") for column in columns}
    scaled = weighted.group_by(*keys, "part").agg(
        *((pl.col(column).cast(pl.Float64) * weight[column]).sum() for column in columns),
        *((pl.col(column) * pl.col("plain")).sum().alias(f"{column}_plain") for column in times),
        *((pl.col(f"{column}_removed") * pl.col("timed")).sum() for column in times),
    )
    every = weighted.select(keys).unique().join(parts, how="cross")
    full = every.join(scaled, on=[*keys, "part"], how="left")
    extra = [f"{column}_{which}" for column in times for which in ("plain", "removed")]
    full = full.with_columns(pl.col(*columns, *extra).fill_null(0.0))
    for column in times:
        more = full.select((pl.col(f"{column}_removed").sum() / pl.col(column).sum()).fill_nan(0.0)).item() or 0.0
        full = full.with_columns(pl.col(column, f"{column}_plain") * (1 + more))
    sums = full.group_by(keys).agg(pl.col(columns).sum())
    drawn = full.filter(share < 1).sort(*keys, "part")
    if drawn.is_empty():
        return sums.with_columns(pl.lit(0.0).alias(f"{column}_error") for column in columns)
    found = []
    for column in columns:
        each = pl.col(column) / pl.col("steps")
        before, after = (each.diff(n).pow(2).over(keys) for n in (1, -1))
        square = pl.col("steps").cast(pl.Float64).pow(2) * (1 - share) * pl.mean_horizontal(before, after) / 2
        if column in times:
            unlike = (pl.col(column) - pl.col(f"{column}_plain")).pow(2)
            square = pl.when(square.is_not_null()).then(pl.max_horizontal(square, unlike))
        whole = square.sum()
        if column in times:
            whole += ((1 - share) * pl.col("doubt") * pl.col(column)).sum().pow(2)
            whole += pl.col(f"{column}_removed").sum().pow(2)
        found.append(pl.when(square.is_not_null().all()).then(whole.sqrt()).alias(f"{column}_error"))
    return sums.join(drawn.group_by(keys).agg(found), on=keys, how="left")
