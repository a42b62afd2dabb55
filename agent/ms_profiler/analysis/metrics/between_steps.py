"""Estimate the work in long gaps between steps, for example evaluations, of which the job recorded only some.

A gap is the time between the end of a step and the begin of the next one. The job records operators and modules in a
gap if it samples the next step. A gap is long if it lasts longer than the median step.

The recorded gaps stand for all gaps: this is a ratio estimate (Cochran, Sampling Techniques, 6.3). Calls of networks
are recorded in all gaps. So in gaps with such calls, the estimate is for all of their calls. In gaps without, it is for
the time of all of them.

    R       = sum of the values of the recorded gaps / sum of their sizes
    sum     = R * sum of the sizes of all gaps
    error^2 = (sum of all sizes / sum of the recorded sizes)^2 * (1 - n / N) * n / (n - 1)
              * sum over the recorded gaps of (value - R * size)^2

n is the number of recorded gaps, N the number of all gaps, and the size of a gap its number of calls, or its length.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.store.format import Category

#: the end of the gap after the last step, ns
_NEVER: Final = 1 << 62


def table(steps: Steps) -> pl.DataFrame:
    """Return the gaps before each step and after the last one: `start_ns`, `end_ns`, and `long`.

    The gap after the last step has no end. It counts as long.

    Args:
        steps: the steps in use.
    """
    known = steps.table
    starts = pl.concat([known["start_ns"].head(1), known["end_ns"]])
    ends = known["start_ns"].extend_constant(_NEVER, 1)
    middle = pl.lit(known["duration_ns"].median())
    return pl.DataFrame({"start_ns": starts, "end_ns": ends}).with_columns(
        long=pl.col("end_ns") - pl.col("start_ns") > middle
    )


def found(steps: Steps, spans: pl.DataFrame, last: bool) -> pl.DataFrame:
    """Return the long gaps: `row` of the next step, `recorded`, `calls` (whether networks are called), and `size`.

    The gap after the last step is left out if no network is called in it, because its length is that of the rest of the
    job.

    Args:
        steps: the steps in use.
        spans: the coarse spans of the run.
        last: whether operators or modules were recorded in the gap after the last step.
    """
    recorded = steps.table["recorded"].extend_constant(last, 1)
    gaps = table(steps).with_columns(recorded).with_row_index("row").filter("long")
    called = spans.filter(pl.col("process") == steps.process, pl.col("category") == Category.FORWARD)
    place = intervals.locate(called["start_ns"], gaps).drop_nulls().alias("place")
    counts = gaps.with_row_index("place").join(place.value_counts(name="calls"), on="place", how="left")
    calls, length = pl.col("calls").fill_null(0), pl.col("end_ns") - pl.col("start_ns")
    size = pl.when(calls > 0).then(calls).otherwise(length).cast(pl.Float64).alias("size")
    sized = counts.sort("place").select("row", "recorded", (calls > 0).alias("calls"), size)
    return sized.filter(pl.col("calls") | (pl.col("row") < steps.table.height))


def estimate(values: pl.DataFrame, keys: list[str], columns: list[str], between: pl.DataFrame) -> pl.DataFrame:
    """Return sums over all long gaps, and the standard error of each sum; the module's text tells the formulas.

    Args:
        values: the sums of recorded gaps by `keys` and `row`; a missing row counts as 0.
        keys: the columns to group by.
        columns: the columns to sum up.
        between: the gaps, from `found`.

    Returns:
        `keys`, `columns` as Float64, and `<column>_error` for each column. The error is null if only one of several
        gaps is recorded.
    """
    kinds = between.group_by("calls").agg(
        pl.col("size").sum().alias("all"),
        pl.col("size").filter("recorded").sum().alias("known"),
        pl.len().cast(pl.Float64).alias("gaps"),
        pl.col("recorded").sum().cast(pl.Float64).alias("n"),
    )
    numbers = pl.col(columns).cast(pl.Float64)
    placed = values.with_columns(numbers).join(between, on="row")
    every = placed.select(*keys, "calls").unique().join(between.filter("recorded"), on="calls")
    full = every.join(placed.select(*keys, "row", *columns), on=[*keys, "row"], how="left")
    full = full.with_columns(pl.col(columns).fill_null(0.0)).join(kinds, on="calls")
    scale, n = pl.col("all").first() / pl.col("known").first(), pl.col("n").first()
    left_out = 1 - n / pl.col("gaps").first()
    found = []
    for column in columns:
        ratio = pl.col(column).sum() / pl.col("size").sum()
        square = (pl.col(column) - ratio * pl.col("size")).pow(2).sum()
        error = pl.when(n > 1).then(scale * (left_out * n / (n - 1) * square).sqrt())
        found.append(pl.when(left_out <= 0).then(0.0).otherwise(error).alias(f"{column}_error"))
    sums = full.group_by(*keys, "calls").agg(pl.col(columns).sum() * scale, *found)
    return sums.drop("calls")
