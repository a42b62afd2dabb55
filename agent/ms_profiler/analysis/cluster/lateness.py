"""Which ranks are late for exchanges with others, and who waits for them.

A rank's own time is what passes from the end of one exchange to its being ready for the next one. Ranks that exchange
leave an exchange together, so that the one with the longest own time comes last, and the others wait for it. No clock
of one rank is compared with that of another.
"""

from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

#: a rank is late whose own time exceeds that of the others by this part of the time of the steps
SHARE: Final = 0.03
#: and in the steps by this many times what they differ by from step to step
TIMES: Final = 4.0
#: and in this part of the steps by as much of a step
OFTEN: Final = 0.7
#: and, among so many ranks, by this many times what the rank in the middle differs from the median
MANY: Final = 8
SPREAD: Final = 5.0
#: or that is late for one step or some, by ns, by times a step, and by times what it differs by in the middle step
ONCE_NS: Final = 200_000_000
ONCE: Final = 2.0
BEYOND: Final = 5.0
#: and then in each step whose excess is this part of the worst one, and as many times what is usual
AGAIN: Final = 0.3
#: steps from which on it is known what they differ by
STEPS: Final = 5

#: own time by step and rank
OWN: Final = pl.Schema({"rank": pl.Int64, "step": pl.Int64, "own_ns": pl.Int64})


@dataclass(frozen=True)
class Late:
    """A rank that is late.

    Attributes:
        rank: its number.
        excess_ns: by how much its own time exceeds the median of the others', over all steps, or over `moments`.
        share: of the time of the steps.
        steps: in how many steps it is the last one.
        worst: the step for which it is latest.
        worst_ns: by how much, there.
        ahead: ranks that wait for it there.
        saved_ns: what the steps would be shorter by if this rank alone took the median time of the others.
        moments: the steps for which it is late; empty where it is for most of them.
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


@dataclass(frozen=True)
class Lateness:
    """Who is late in a job, and what that costs.

    Attributes:
        steps: that all ranks which are known share.
        total_ns: time of these steps, of the rank in the middle.
        late: ranks that are late, the latest first.
        lost_ns: what the steps would be shorter by if these ranks took the time of the slowest other one.
        waits: `rank`, `wait_ns` for the last rank over all steps.
        critical: `step`, `rank` that comes last, `wait_ns` of the rank in the middle.
        imbalance_ns: by how much the slowest rank exceeds the mean, over all steps.
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


def lateness(own: pl.DataFrame, total_ns: int) -> Lateness:
    """Return who is late.

    Args:
        own: `OWN`; steps that a rank lacks count for the others.
        total_ns: time of all steps.
    """
    known = own.drop_nulls("own_ns").filter(pl.len().over("step") > 1)
    if known.is_empty():
        return Lateness(0, total_ns)
    table = _differences(known)
    count = table["step"].n_unique()
    late = _late(table, max(total_ns, 1), count)
    names = [found.rank for found in late]
    most = table.group_by("step").agg(pl.col("own_ns").max())
    others = table.filter(~pl.col("rank").is_in(names)).group_by("step").agg(pl.col("own_ns").max().alias("rest_ns"))
    lost = most.join(others, on="step").select((pl.col("own_ns") - pl.col("rest_ns")).clip(lower_bound=0).sum()).item()
    waits = table.with_columns(wait_ns=pl.col("own_ns").max().over("step") - pl.col("own_ns"))
    return Lateness(
        steps=count,
        total_ns=total_ns,
        late=late,
        lost_ns=int(lost or 0) if late else 0,
        waits=waits.group_by("rank").agg(pl.col("wait_ns").sum()).sort("rank"),
        critical=waits.sort("step", "own_ns", "rank", descending=[False, True, False])
        .group_by("step", maintain_order=True)
        .agg(pl.col("rank").first(), pl.col("wait_ns").median().cast(pl.Int64)),
        imbalance_ns=int(
            table.group_by("step").agg((pl.col("own_ns").max() - pl.col("own_ns").mean()).alias("over"))["over"].sum()
        ),
    )


def _differences(known: pl.DataFrame) -> pl.DataFrame:
    """Return the table with `excess_ns`, by which a rank's own time exceeds the median of the others in the step.

    Of n sorted values without the one at place k, the middle ones are those at (n - 2) // 2 and (n - 1) // 2, each one
    place further on where k is at or before it.
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


def _late(table: pl.DataFrame, total_ns: int, count: int) -> list[Late]:
    step = total_ns / max(count, 1)
    found = table.group_by("rank").agg(
        (pl.col("excess_ns") >= SHARE * step).mean().alias("part"),
        pl.col("excess_ns").abs().median().alias("usual"),
        pl.col("excess_ns").sum().alias("sum"),
        pl.col("excess_ns").max().alias("most"),
        pl.col("step").get(pl.col("excess_ns").arg_max()).alias("worst"),
        pl.col("place").get(pl.col("excess_ns").arg_max()).alias("ahead"),
        pl.col("excess_ns").median().alias("median"),
        pl.col("last").sum(),
        pl.col("saved_ns").sum(),
        (pl.col("excess_ns").std() / pl.len().sqrt()).alias("error"),
        pl.len().alias("count"),
    )
    often = (
        (pl.col("median") * pl.col("count") >= SHARE * total_ns)
        & (pl.col("sum") >= TIMES * pl.col("error") * pl.col("count"))
        & (pl.col("count") >= min(count, STEPS))
        & (pl.col("part") >= OFTEN)
        & (pl.col("median") >= _spread(found["median"]))
    )
    once = pl.col("most") >= pl.max_horizontal(pl.lit(ONCE_NS), pl.lit(ONCE * step), BEYOND * pl.col("usual"))
    rows = found.with_columns(often=often.fill_null(False), once=once).filter(pl.col("often") | pl.col("once"))
    late = []
    for row in rows.sort("sum", "rank", descending=[True, False]).iter_rows(named=True):
        moments, excess = ((), row["sum"]) if row["often"] else _moments(table, row)
        worst = row["worst"], int(row["most"]), int(row["ahead"])
        saved = int(row["saved_ns"])
        late.append(Late(row["rank"], int(excess), excess / total_ns, row["last"], *worst, saved, moments))
    return late


def _moments(table: pl.DataFrame, row: dict[str, Any]) -> tuple[tuple[int, ...], int]:
    """Return the steps for which a rank is late that is not so for most of them, and by how much in all of these."""
    least = max(AGAIN * row["most"], BEYOND * row["usual"])
    found = table.filter(pl.col("rank") == row["rank"], pl.col("excess_ns") >= least).sort("step")
    return tuple(found["step"].to_list()), int(found["excess_ns"].sum())


def _spread(differences: pl.Series) -> float:
    """Return from which difference on a rank stands out from many, by the median of what they differ by."""
    if len(differences) < MANY:
        return 0.0
    middle = differences.median()
    apart = (differences - middle).abs().median()
    assert isinstance(middle, float) and isinstance(apart, float)
    return middle + SPREAD * apart
