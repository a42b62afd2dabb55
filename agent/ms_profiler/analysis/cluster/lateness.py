"""Find the ranks that come late to exchanges, and the ranks that wait for them.

A rank's own time is the time from the end of one exchange until the rank is ready for the next exchange. All ranks
leave an exchange together. So the rank with the longest own time comes last, and the other ranks wait for it. This
method never compares the clocks of two ranks. The excess of a rank in a step is its own time minus the median own time
of the other ranks.
"""

from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.cluster import late_periods
from ms_profiler.analysis.cluster.late_periods import OFTEN, SHARE

#: Let x be the excess (own time of a rank - median of the other ranks) in each of n steps. The rank is late in most
#: steps if it reaches four limits. The first is: n * median(x) >= `SHARE` * time of the steps. The second is:
#: x >= `SHARE` * length of a step in at least the share `OFTEN` of the steps
#: third limit of a rank that is late in most steps: mean(x) >= `TIMES` * standard deviation(x) / sqrt(n)
TIMES: Final = 4.0
#: fourth limit, used only among at least `MANY` ranks, where m is the median(x) of a rank:
#: m >= median(m of all ranks) + `SPREAD` * median(|m - median(m)| of all ranks)
MANY: Final = 8
SPREAD: Final = 5.0
#: a rank with the excess x (own time - median of the other ranks) in each step is late in single steps if
#: max(x) >= max(`ONCE_NS`, `ONCE` * length of a step, `BEYOND` * median(|x|))
ONCE_NS: Final = 200_000_000
ONCE: Final = 2.0
BEYOND: Final = 5.0
#: A rank with shorter delays is late in single steps, too, if the delays return and cost much. A delay is an excess x
#: with x >= max(`AGAINST` * length of a step, `BEYOND` * median(|x|)). The limits are: at least `STEPS` delays at equal
#: distances (a share of at least `OFTEN` of the distances), or `DELAYS` delays;
#: sum(delays) >= `RETURNS` * time of the steps and between them; sum(delays) >= `FIRST` * sum(delays of any other
#: rank). In 18 of 2,400 simulated jobs without a late rank, one was found; with stricter limits in 14.
#: A rank that is late in a period and in single steps is late in the period if
#: sum(x of the period) >= `ALONE` * sum(x of the single steps)
AGAINST: Final = 0.3
DELAYS: Final = 8
RETURNS: Final = 0.1
FIRST: Final = 4.0
ALONE: Final = 0.75
#: a rank that is late in single steps is late in each step in which its excess x reaches this limit:
#: x >= max(`BEYOND` * median(|x|), min(`AGAIN` * max(x), max(`ONCE_NS`, `ONCE` * length of a step)))
AGAIN: Final = 0.3
#: the variation over steps is judged only if there are at least this many steps
STEPS: Final = 5

#: a time in ns that no exchange reaches
_FOREVER: Final = 2**61
#: columns of own times (the time from the end of one exchange until the rank is ready for the next), by rank and step
OWN: Final = pl.Schema({"rank": pl.Int64, "step": pl.Int64, "own_ns": pl.Int64})


@dataclass(frozen=True)
class Late:
    """A rank that is late: it comes to exchanges after the other ranks, which wait for it.

    The own time of a rank is the time from the end of one exchange until it is ready for the next. Its excess is its
    own time minus the median of the other ranks.

    Attributes:
        rank: number of the rank.
        excess_ns: its excess, summed over `moments`, or over all steps if `moments` is empty.
        share: `excess_ns` as a share of `Lateness.total_ns`.
        steps: the number of steps in which it is the last rank.
        worst: the step in which it is latest.
        worst_ns: its excess in the worst step.
        ahead: the number of ranks that wait for it in the worst step.
        saved_ns: the time that the steps would save if this rank took the median time of the other ranks in `moments`,
            or in all steps if `moments` is empty, and nothing else changed.
        moments: the steps in which the rank is late; empty if it is late in most steps.
        period: the first and the last step of the period in which the rank is late; None if it is late in most steps of
            the job, or in single steps.
    """

    rank: int
    excess_ns: int
    share: float
    steps: int
    worst: int
    worst_ns: int
    ahead: int
    saved_ns: int = 0
    moments: tuple[int, ...] = ()
    period: tuple[int, int] | None = None

    @property
    def often(self) -> bool:
        """Return whether the rank is late in most steps of the job or of a period, and not only in single steps."""
        return not self.moments or self.period is not None


@dataclass(frozen=True)
class Lateness:
    """The late ranks of a job, and the time that they cost.

    The own time of a rank is the time from the end of one exchange until it is ready for the next.

    Attributes:
        steps: the number of steps in which the own times of at least two ranks are known.
        total_ns: the time of these steps, and of the time before each of them, on the median rank. The own times lie
            in this time.
        late: the late ranks, the latest first.
        lost_ns: the time that the steps would save if the late ranks took as long as the slowest other rank, in the
            steps in which they are late.
        waits: `rank`, and `wait_ns`, the rank's wait over all steps: for the last rank of the step, or in messages if
            that is longer.
        critical: one row per step: `step`, `rank` (the last rank of the step), `wait_ns` (the wait of the median rank).
        imbalance_ns: the sum over all steps of (longest own time of a rank - mean own time of the ranks).
        passed: `steps`, plus the number of steps without an exchange that lie before these steps.
        made: the number of steps that the ranks made if they recorded only a sample of them; otherwise 0.
    """

    steps: int
    total_ns: int
    late: list[Late] = field(default_factory=list)
    lost_ns: int = 0
    waits: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema={"rank": pl.Int64, "wait_ns": pl.Int64}))
    critical: pl.DataFrame = field(
        default_factory=lambda: pl.DataFrame(schema={"step": pl.Int64, "rank": pl.Int64, "wait_ns": pl.Int64})
    )
    imbalance_ns: int = 0
    passed: int = 0
    made: int = 0


def lateness(own: pl.DataFrame, total_ns: int, within_ns: int | None = None) -> Lateness:
    """Return the late ranks, and the time that they cost.

    Args:
        own: table of own times, with the columns of `OWN`: the time from the end of an exchange until the rank is ready
            for the next. If one rank lacks a step, the step still counts for the other ranks. The table may have the
            column `exchange_ns`: the time of the rank in the exchanges of the step. No wait is longer than it. It may
            also have the columns `weight`, the number of steps for which a sampled step stands, and `messages_ns`, the
            time in which the rank only waits in messages. The last rank waits in messages, too, because the ranks do
            not leave a message together. Ranks wait only for ranks with the same value in the column `first`, if it
            exists.
        total_ns: the time of all steps and of the time between them, in ns. It is at least the sum over all steps of
            the longest own time.
        within_ns: the time of the steps alone, in ns; by default `total_ns`. Whether a rank is late is judged by the
            length of a step.
    """
    known = own.drop_nulls("own_ns").filter(pl.len().over("step") > 1)
    if known.is_empty():
        return Lateness(0, total_ns)
    if "weight" not in known.columns:
        known = known.with_columns(weight=pl.lit(1, pl.Int64))
    table = _differences(_limited(known))
    count = table["step"].n_unique()
    late = _late(table, total_ns, (total_ns if within_ns is None else within_ns) / count)
    names = [found.rank for found in late if not found.moments]
    single = [(found.rank, step) for found in late for step in found.moments]
    moments = pl.DataFrame(single, {"rank": pl.Int64, "step": pl.Int64}, orient="row")
    most = table.group_by("step").agg(pl.col("own_ns").max())
    punctual = table.filter(~pl.col("rank").is_in(names)).join(moments, on=["rank", "step"], how="anti")
    others = punctual.group_by("step").agg(pl.col("own_ns").max().alias("rest_ns"))
    lost = most.join(others, on="step").select((pl.col("own_ns") - pl.col("rest_ns")).clip(lower_bound=0).sum()).item()
    among = ["step", *(["first"] if "first" in table.columns else [])]
    waits = table.with_columns(
        wait_ns=pl.min_horizontal(pl.col("own_ns").max().over(among) - pl.col("own_ns"), "exchange_ns")
    )
    in_messages = pl.col("messages_ns" if "messages_ns" in waits.columns else "wait_ns")
    sums = waits.group_by("rank").agg(pl.max_horizontal("wait_ns", in_messages).sum().alias("wait_ns"))
    return Lateness(
        steps=count,
        total_ns=total_ns,
        late=late,
        lost_ns=int(lost or 0) if late else 0,
        waits=sums.sort("rank"),
        critical=waits.sort("step", "own_ns", "rank", descending=[False, True, False])
        .group_by("step", maintain_order=True)
        .agg(pl.col("rank").first(), pl.col("wait_ns").median().cast(pl.Int64)),
        imbalance_ns=int(
            table.group_by("step").agg((pl.col("own_ns").max() - pl.col("own_ns").mean()).alias("over"))["over"].sum()
        ),
    )


def _limited(known: pl.DataFrame) -> pl.DataFrame:
    """Limit each own time to the time after which another rank left the exchanges of the step.

    A rank waits only in exchanges. So where no other rank was in an exchange for long, none waited long for this rank.
    """
    if "exchange_ns" not in known.columns:
        return known.with_columns(exchange_ns=pl.lit(None, pl.Int64))
    left = pl.col("own_ns") + pl.col("exchange_ns").fill_null(_FOREVER)
    last, second = left.max().over("step"), left.top_k(2).min().over("step")
    others = pl.when(left == last).then(second).otherwise(last)
    return known.with_columns(own_ns=pl.min_horizontal("own_ns", others))


def _differences(known: pl.DataFrame) -> pl.DataFrame:
    """Add `excess_ns`, `last` (whether the rank is the last one in the step) and `saved_ns` (as in `Late`).

    The excess is the difference from the median of the other ranks. This median is the mean of two of the n sorted own
    times. Among the n - 1 values of the other ranks, these two have the indices i = (n - 2) // 2 and i = (n - 1) // 2.
    Let k be the index of the rank's own value among all n values. If k <= i, the value with index i among the others
    has the index i + 1 among all n values. If k > i, it has the index i.
    """
    places = known.sort("step", "own_ns", "rank").with_columns(
        place=pl.int_range(pl.len()).over("step"), count=pl.len().over("step")
    )
    first = places.select(pl.int_range(pl.len()) - pl.col("place")).to_series()
    values = places["own_ns"]
    middles = []
    for less in (2, 1):
        middle = (pl.col("count").cast(pl.Int64) - less) // 2
        place = places.select(first + middle + (pl.col("place") <= middle).cast(pl.Int64)).to_series()
        middles.append(values.gather(place))
    median = ((middles[0] + middles[1]) / 2).cast(pl.Int64)
    last = pl.col("place") + 1 == pl.col("count")
    before = pl.max_horizontal(values.shift(1).fill_null(0), median)
    saved = pl.when(last).then((values - before).clip(lower_bound=0)).otherwise(0)
    return places.with_columns(excess_ns=values - median, last=last, saved_ns=saved)


def _late(table: pl.DataFrame, total_ns: int, step: float) -> list[Late]:
    """Return the late ranks, the latest first.

    Args:
        table: the own times, with the columns that `_differences` adds.
        total_ns: the time of all steps and of the time between them, in ns.
        step: the mean length of a step, in ns.
    """
    count = table["step"].n_unique()
    # the steps at the begin are all recorded. So that they do not decide for the whole job, sampled steps count as the
    # steps for which they stand
    usual = (
        late_periods.spread(table)
        .group_by("rank")
        .agg(
            (pl.col("excess_ns") >= SHARE * step).mean().alias("part"),
            pl.col("excess_ns").abs().median().alias("usual"),
            pl.col("excess_ns").median().alias("median"),
        )
    )
    found = (
        table.group_by("rank")
        .agg(
            pl.col("excess_ns").sum().alias("sum"),
            pl.col("excess_ns").max().alias("most"),
            pl.col("step").get(pl.col("excess_ns").arg_max()).alias("worst"),
            pl.col("place").get(pl.col("excess_ns").arg_max()).alias("ahead"),
            pl.col("last").sum(),
            pl.col("saved_ns").sum(),
            (pl.col("excess_ns").std() / pl.len().sqrt()).alias("error"),
            pl.len().alias("count"),
            (pl.col("excess_ns").clip(lower_bound=0).sum() >= late_periods.COST * total_ns).alias("much"),
        )
        .join(usual, on="rank")
    )
    often = (
        (pl.col("median") * pl.col("count") >= SHARE * step * count)
        & (pl.col("sum") >= TIMES * pl.col("error") * pl.col("count"))
        & (pl.col("count") >= min(count, STEPS))
        & (pl.col("part") >= OFTEN)
        & (pl.col("median") >= _spread(found["median"]))
    )
    lone, again = (pl.max_horizontal(pl.lit(part * step), BEYOND * pl.col("usual")) for part in (ONCE, AGAINST))
    found = found.with_columns(again.alias("least"))
    returning = pl.col("rank").is_in(_returning(table, found, total_ns))
    once = (pl.col("most") >= pl.max_horizontal(pl.lit(ONCE_NS), lone)) | returning
    rows = found.with_columns(often=often.fill_null(False), once=once).sort("sum", "rank", descending=[True, False])
    by_rank = table.sort("rank", "step").partition_by("rank", as_dict=True)
    late = []
    for row in rows.filter(pl.any_horizontal("often", "once", "much")).iter_rows(named=True):
        own = by_rank[row["rank"],]
        single = own.filter(pl.col("excess_ns") >= _least(row, ONCE * step)) if row["once"] else own.clear()
        period = _period(table, own, step, total_ns)
        lasting = not period.is_empty() and period["excess_ns"].sum() >= ALONE * float(single["excess_ns"].sum())
        chosen = period if lasting else single
        if row["often"] and not lasting:
            share, worst = row["sum"] / max(total_ns, 1), (row["worst"], int(row["most"]), int(row["ahead"]))
            late.append(Late(row["rank"], int(row["sum"]), share, row["last"], *worst, int(row["saved_ns"])))
        elif not chosen.is_empty():
            late.append(_in_some_steps(chosen, row["last"], total_ns, lasting))
    return sorted(late, key=lambda each: (-each.excess_ns, each.rank))


def _period(table: pl.DataFrame, own: pl.DataFrame, step: float, total_ns: int) -> pl.DataFrame:
    """Return the steps of the period in which a rank is late; no rows if there is none, or if others differ as much.

    Args:
        table: the own times of all ranks, with the columns that `_differences` adds.
        own: the rows of the rank, sorted by step.
        step: the mean length of a step, in ns.
        total_ns: the time of all steps and of the time between them, in ns.
    """
    found = late_periods.period(own, step, total_ns)
    if found.is_empty() or table["rank"].n_unique() < MANY:
        return found
    within = table.filter(pl.col("step").is_between(found["step"][0], found["step"][-1]))
    medians = within.group_by("rank").agg(pl.col("excess_ns").median())["excess_ns"]
    middle = found["excess_ns"].median()
    assert isinstance(middle, float)
    return found if middle >= _spread(medians) else found.clear()


def _in_some_steps(rows: pl.DataFrame, last: int, total_ns: int, lasting: bool) -> Late:
    """Return a rank that is late in some steps.

    Args:
        rows: the rows of the rank in the steps in which it is late, sorted by step.
        last: the number of steps in which it is the last rank.
        total_ns: the time of all steps and of the time between them, in ns.
        lasting: whether it is late in a period.
    """
    excess, steps = int(rows["excess_ns"].sum()), rows["step"].to_list()
    worst = rows.row(rows["excess_ns"].arg_max() or 0, named=True)
    return Late(
        rank=worst["rank"],
        excess_ns=excess,
        share=excess / max(total_ns, 1),
        steps=last,
        worst=worst["step"],
        worst_ns=worst["excess_ns"],
        ahead=worst["place"],
        saved_ns=int(rows["saved_ns"].sum()),
        moments=tuple(steps),
        period=(steps[0], steps[-1]) if lasting else None,
    )


def _returning(table: pl.DataFrame, found: pl.DataFrame, total_ns: int) -> list[int]:
    """Return the ranks with delays that return and cost much.

    Args:
        table: the own times, with the columns that `_differences` adds.
        found: `rank`, and `least`, the shortest excess that is a delay.
        total_ns: the time of all steps and of the time between them, in ns.
    """
    delays = table.join(found.select("rank", "least"), on="rank").filter(pl.col("excess_ns") >= pl.col("least"))
    distances = pl.col("step").sort().diff().drop_nulls()
    sums = delays.group_by("rank").agg(
        pl.len().alias("times"),
        pl.col("excess_ns").sum(),
        (distances == distances.mode().max()).mean().fill_null(0.0).alias("regular"),
    )
    times, excess = pl.col("times"), pl.col("excess_ns")
    again = (times >= DELAYS) | ((times >= STEPS) & (pl.col("regular") >= OFTEN))
    second = pl.when(pl.len() > 1).then(excess.top_k(2).min()).otherwise(0)
    much = (excess >= RETURNS * total_ns) & (excess == excess.max()) & (excess >= FIRST * second)
    return sums.filter(again & much)["rank"].to_list()


def _least(row: dict[str, Any], length: float) -> float:
    """Return the shortest excess with which a rank that is late in single steps is late in a step."""
    least: float = max(min(AGAIN * row["most"], max(ONCE_NS, length)), BEYOND * row["usual"])
    return least


def _spread(differences: pl.Series) -> float:
    """Return a limit for differences x: median(x) + `SPREAD` * median(|x - median(x)|); 0 for fewer than `MANY`."""
    if len(differences) < MANY:
        return 0.0
    middle = differences.median()
    apart = (differences - middle).abs().median()
    assert isinstance(middle, float) and isinstance(apart, float)
    return middle + SPREAD * apart
