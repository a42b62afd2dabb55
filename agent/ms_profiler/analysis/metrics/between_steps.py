"""Estimate the work in long gaps between steps, for example evaluations, of which the job recorded only some.

A gap is the time between the end of a step and the begin of the next one. The job records operators and modules in a
gap if it samples the next step. A gap is long if it lasts longer than the median step. The gap after the last step ends
with the last call of a network in it.

The recorded gaps stand for all gaps: this is a ratio estimate (Cochran, Sampling Techniques, 6.3). Gaps with calls of
networks and gaps without are estimated apart. Calls of networks and waits for data are recorded in all gaps. So they
cut each gap into parts, and the time of each part is known in all gaps. Times are estimated for the known time of each
part, because the machine may be slower in the recorded gaps than in the others. Counts are estimated for the number of
calls of networks; in gaps without such calls, for the length of the gaps.

    R       = sum of the values of the recorded gaps / sum of their sizes
    sum     = R * sum of the sizes of all gaps
    error^2 = (1 - n / N) * n / (n - 1) * sum over the recorded gaps of (sum over parts of d)^2
              + sum over parts of (u * s * sum of the sizes of the other gaps)^2
    d       = sum of all sizes / sum of the recorded sizes * (value - R * size)

n is the number of recorded gaps, N the number of all gaps. s is the standard deviation of value / size from R in the
recorded gaps. u tells how far the sizes of the recorded gaps are from those of the other gaps: 1 - the smaller one of
both means / the larger one.
"""

from dataclasses import dataclass

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.steps import Steps, stepping
from ms_profiler.store.format import Category

#: parts of a gap: calls of networks, waits of the stepping thread for data, the rest
_CALLED, _DATA, _REST = 0, 1, 2


@dataclass(frozen=True)
class Gaps:
    """The long gaps between steps.

    Attributes:
        table: `row` of the next step, `recorded`, `calls` (whether networks are called), and `size`: the number of
            these calls, or the length in ns if there are none.
        times: the known time `ns` of each `part` of a gap, given by `row`.
    """

    table: pl.DataFrame
    times: pl.DataFrame

    @property
    def called_ns(self) -> int:
        """Return the time of all calls of networks in the gaps, in ns."""
        return int(self.times.filter(pl.col("part") == _CALLED)["ns"].sum())


def table(steps: Steps, spans: pl.DataFrame) -> pl.DataFrame:
    """Return the gaps after each step: `row` of the next step, `start_ns`, `end_ns`, and `long`.

    Args:
        steps: the steps in use.
        spans: the coarse spans of the run.
    """
    known = steps.table
    last = int(known["end_ns"][-1])
    calls = _called(steps, spans).filter(pl.col("start_ns") >= last)
    ends = known["start_ns"].slice(1).extend_constant(calls["end_ns"].max() or last, 1)
    middle = pl.lit(known["duration_ns"].median())
    found = pl.DataFrame({"start_ns": known["end_ns"], "end_ns": ends}).with_row_index("row", 1)
    long = (pl.col("end_ns") - pl.col("start_ns") > middle) | (pl.col("row") == known.height)
    return found.with_columns(long=long).filter(pl.col("end_ns") > pl.col("start_ns"))


def pieces(steps: Steps, spans: pl.DataFrame) -> pl.DataFrame:
    """Cut the long gaps into parts: `row` of the next step, `part`, `start_ns` and `end_ns`, sorted by time.

    Args:
        steps: the steps in use.
        spans: the coarse spans of the run.
    """
    gaps = table(steps, spans).filter("long")
    inside = pl.any_horizontal(intervals.locate(spans[bound], gaps).is_not_null() for bound in intervals.BOUNDS)
    near = spans.filter(inside)
    sets = {"gap": gaps, "calls": _called(steps, near), "data": stepping(near, steps, Category.DATA)}
    part = pl.when(pl.col("calls") > 0).then(_CALLED).when(pl.col("data") > 0).then(_DATA).otherwise(_REST)
    cut = intervals.timeline(sets).filter(pl.col("gap") > 0)
    rows = gaps["row"].gather(intervals.locate(cut["start_ns"], gaps))
    return intervals.merge(cut.select("start_ns", "end_ns", rows, part.alias("part")), "row", "part")


def times(cut: pl.DataFrame) -> pl.DataFrame:
    """Return the time of each part of each long gap: `row`, `part`, `ns`, sorted by row and part.

    Args:
        cut: the parts, from `pieces`.
    """
    length = (pl.col("end_ns") - pl.col("start_ns")).sum().alias("ns")
    return cut.group_by("row", "part").agg(length).sort("row", "part")


def found(steps: Steps, spans: pl.DataFrame, seen: pl.Series) -> Gaps:
    """Return the long gaps. The gap after the last step is left out if no network is called in it.

    Args:
        steps: the steps in use.
        spans: the coarse spans of the run.
        seen: the parts (rows of `Gaps.times`) with recorded operators or modules. They tell whether the gap after the
            last step was recorded.
    """
    gaps, parts = table(steps, spans).filter("long"), times(pieces(steps, spans))
    last = bool((parts["row"].gather(seen) == steps.table.height).any())
    recorded = steps.table["recorded"].extend_constant(last, 1).gather(gaps["row"])
    place = intervals.locate(_called(steps, spans)["start_ns"], gaps).drop_nulls().alias("place")
    counts = gaps.with_columns(recorded).with_row_index("place")
    counts = counts.join(place.value_counts(name="calls"), on="place", how="left").sort("place")
    calls, length = pl.col("calls").fill_null(0), pl.col("end_ns") - pl.col("start_ns")
    size = pl.when(calls > 0).then(calls).otherwise(length).cast(pl.Float64).alias("size")
    return Gaps(counts.select("row", "recorded", (calls > 0).alias("calls"), size), parts)


def estimate(values: pl.DataFrame, keys: list[str], columns: list[str], between: Gaps) -> pl.DataFrame:
    """Return sums over all long gaps, and the standard error of each sum; the module's text tells the formulas.

    Args:
        values: the sums of recorded gaps by `keys`, `row` and `part`; a missing row counts as 0.
        keys: the columns to group by.
        columns: the columns to sum up. Those that end with "ns" are times, the others are counts.
        between: the gaps.

    Returns:
        `keys`, `columns` as Float64, and `<column>_error` for each column. The error is null if only one of several
        gaps is recorded.
    """
    lengths = [column for column in columns if column.endswith("ns")]
    counts = [column for column in columns if column not in lengths]
    parts = between.times.join(between.table.drop("size"), on="row").rename({"ns": "size"})
    whole = between.table.with_columns(part=pl.lit(_REST))
    sums = _ratios(values, keys, lengths, parts.with_columns(pl.col("size").cast(pl.Float64)))
    if counts:
        sums = sums.join(_ratios(values.with_columns(part=pl.lit(_REST)), keys, counts, whole), on=[*keys, "calls"])
    return sums.drop("calls")


def _ratios(values: pl.DataFrame, keys: list[str], columns: list[str], sizes: pl.DataFrame) -> pl.DataFrame:
    """Return sums over all gaps as `estimate`, by `keys` and `calls`.

    Args:
        values: as for `estimate`.
        keys: the columns to group by.
        columns: the columns to sum up, all for the same sizes.
        sizes: the `size` of each `part` of each gap, given by `row`, with `recorded` and `calls`.
    """
    size, others = pl.col("size"), pl.col("size").filter(~pl.col("recorded"))
    means = size.filter("recorded").mean(), others.mean()
    kinds = sizes.group_by("calls", "part").agg(
        (size.sum() / size.filter("recorded").sum()).alias("scale"),
        ((1 - pl.min_horizontal(*means) / pl.max_horizontal(*means)) * others.sum()).alias("unlike"),
    )
    known = sizes.filter("recorded").join(kinds, on=["calls", "part"])
    summed = values.group_by(*keys, "row", "part").agg(pl.col(columns).cast(pl.Float64).sum())
    every = summed.join(known.select("row", "part", "calls"), on=["row", "part"]).select(*keys, "calls", "part")
    full = every.unique().join(known, on=["calls", "part"]).join(summed, on=[*keys, "row", "part"], how="left")
    full = full.with_columns(pl.col(columns).fill_null(0.0))
    gaps = sizes.unique("row").group_by("calls").agg(pl.len().alias("gaps"), pl.col("recorded").sum().alias("n"))
    n, left_out = pl.col("n").first(), 1 - pl.col("n").first() / pl.col("gaps").first()
    each, sums = [], []
    for column in columns:
        value, off, apart = pl.col(column), f"{column}_off", f"{column}_apart"
        ratio = value.sum() / size.sum()
        spread = (value / size - ratio).pow(2).mean() * pl.len() / (pl.len() - 1)
        each += [value * pl.col("scale"), ((value - ratio * size) * pl.col("scale")).alias(off)]
        each += [(pl.col("unlike").pow(2) * spread / pl.len()).fill_nan(0.0).fill_null(0.0).alias(apart)]
        square = left_out * n / (n - 1) * pl.col(off).pow(2).sum() + pl.col(apart).sum()
        error = pl.when(left_out <= 0).then(0.0).when(n > 1).then(square.sqrt())
        sums += [value.sum(), error.alias(f"{column}_error")]
    of_parts = full.select(*keys, "calls", "row", *(one.over(*keys, "calls", "part") for one in each))
    of_gaps = of_parts.group_by(*keys, "calls", "row").agg(pl.all().sum())
    return of_gaps.join(gaps, on="calls").group_by(*keys, "calls").agg(sums)


def _called(steps: Steps, spans: pl.DataFrame) -> pl.DataFrame:
    """Return the calls of networks in the process of the steps."""
    return spans.filter(pl.col("process") == steps.process, pl.col("category") == Category.FORWARD)
