"""Compute by how much the clocks of ranks differ, from the exchanges in which all these ranks took part.

No rank leaves such an exchange before the last rank has come. So each exchange bounds how far the clock of rank b is
ahead of the clock of rank a:

    start_b - end_a <= clock_b - clock_a <= end_b - start_a

The estimate is the median of end_b - end_a, limited by the tightest of these bounds. Clocks drift apart, so the bounds
of an exchange are wider by `DRIFT` * t at a time t ns before or after the exchange. The uncertainty of the estimate is
its largest difference from the tightest bounds, over the times of all exchanges. Ranks of one machine share its clock.
"""

import math
from dataclasses import dataclass
from typing import Final

import polars as pl

#: operations that end on each rank only after all ranks have arrived
JOINT: Final = ("allreduce", "allgather", "allgatherintotensor", "reducescatter", "alltoall", "barrier")

#: ns per ns by which two clocks may drift apart: crystals differ by up to 100 ppm, and NTP slews a clock by 500 ppm
DRIFT: Final = 6e-4


@dataclass(frozen=True)
class Offset:
    """The offset of a rank's clock.

    Attributes:
        offset_ns: how far the clock is ahead of the first rank's clock, in ns; subtract it from the rank's times.
        uncertainty_ns: the largest possible error of the offset, in ns; None if unknown.
        by: how the offset is known: "machine" (a shared clock) or "exchanges"; "wall clock" if it is known by neither.
    """

    offset_ns: int
    uncertainty_ns: int | None
    by: str


def offsets(
    meetings: pl.DataFrame, machines: dict[int, str], uncertainties: dict[int, int | None]
) -> dict[int, Offset]:
    """Return the clock offset of each rank.

    Args:
        meetings: the joint exchanges: `rank`, `key` (the same for all ranks of an exchange), `start_ns`, `end_ns`.
        machines: rank -> a name that is the same for ranks which share a clock; empty if the name is unknown.
        uncertainties: rank -> the uncertainty of the rank's own readings of its clock, in ns.
    """
    first = min(machines)
    found = {first: Offset(0, uncertainties.get(first) or 0, "machine")}
    waiting = [first]
    rest = set(machines) - {first}
    while waiting and rest:
        known = waiting.pop(0)
        for rank in sorted(rest):
            if machines[rank] and machines[rank] == machines[known]:
                least = (uncertainties.get(rank) or 0) + (uncertainties.get(known) or 0)
                found[rank] = Offset(found[known].offset_ns, least, "machine")
        for rank, (offset, uncertainty) in _against(meetings, known, rest - set(found)).items():
            before = found[known].uncertainty_ns or 0
            found[rank] = Offset(found[known].offset_ns + offset, before + uncertainty, "exchanges")
        waiting += sorted(rest & set(found))
        rest -= set(found)
    found |= {rank: Offset(0, None, "wall clock") for rank in rest}
    return dict(sorted(found.items()))


def _against(meetings: pl.DataFrame, known: int, ranks: set[int]) -> dict[int, tuple[int, int]]:
    """Return the offset and uncertainty (ns) of each rank's clock against the clock of the rank `known`."""
    base = meetings.filter(pl.col("rank") == known).select("key", base_start="start_ns", base_end="end_ns")
    pairs = meetings.filter(pl.col("rank").is_in(sorted(ranks))).join(base, on="key")
    if pairs.is_empty():
        return {}
    bounds = pairs.select(
        "rank",
        (pl.col("start_ns") - pl.col("base_end")).alias("least"),
        (pl.col("end_ns") - pl.col("base_start")).alias("most"),
        (pl.col("end_ns") - pl.col("base_end")).alias("between"),
        # times count from the first exchange: they are then small, and their products with the drift are exact
        ((pl.col("base_end") - pl.col("base_end").min()) * DRIFT).alias("apart"),
    ).sort("rank", "apart")
    apart = pl.col("apart")
    # each list has two bounds for the time of each exchange. One bound follows from this exchange and the earlier ones,
    # the other bound from this exchange and the later ones
    least = [
        (pl.col("least") + apart).cum_max().over("rank") - apart,
        (pl.col("least") - apart).cum_max(reverse=True).over("rank") + apart,
    ]
    most = [
        (pl.col("most") - apart).cum_min().over("rank") + apart,
        (pl.col("most") + apart).cum_min(reverse=True).over("rank") - apart,
    ]
    limits = bounds.with_columns(low=pl.max_horizontal(least), high=pl.min_horizontal(most))
    table = limits.group_by("rank").agg(
        pl.col("least").max(),
        pl.col("most").min(),
        pl.col("between").median(),
        pl.col("low").min(),
        pl.col("high").max(),
    )
    found = {}
    for rank, least_ns, most_ns, between, low, high in table.iter_rows():
        inner = sorted((least_ns, most_ns))  # if a clock drifts, the lower bound may be above the upper bound
        offset = int(min(max(between, inner[0]), inner[1]))
        found[rank] = offset, math.ceil(max(high - offset, offset - low))
    return found
