"""By how much the clocks of ranks differ, from exchanges that all of them had to come to.

No rank leaves such an exchange before the last one has come. So the clock of rank b is ahead of that of rank a by at
most end_b - start_a, and by at least start_b - end_a, of each exchange; the tightest of these bound it for certain.
Between them it is estimated by the median of end_b - end_a. Ranks of one machine share its clock.
"""

from dataclasses import dataclass
from typing import Final

import polars as pl

#: exchanges that end for nobody before all have come
JOINT: Final = ("allreduce", "allgather", "allgatherintotensor", "reducescatter", "alltoall", "barrier")


@dataclass(frozen=True)
class Offset:
    """The clock of a rank.

    Attributes:
        offset_ns: by how much it is ahead of that of the first rank; to be subtracted from its times.
        uncertainty_ns: the offset is right to this; None where nothing bounds it.
        by: "machine" or "exchanges", or "wall clock" where neither tells.
    """

    offset_ns: int
    uncertainty_ns: int | None
    by: str


def offsets(
    meetings: pl.DataFrame, machines: dict[int, str], uncertainties: dict[int, int | None]
) -> dict[int, Offset]:
    """Return the clocks of ranks.

    Args:
        meetings: `rank`, `key` (the same for all ranks of an exchange), `start_ns`, `end_ns` of joint exchanges.
        machines: by rank, a name that is the same for ranks which share a clock; empty where that is not known.
        uncertainties: of each rank's own readings of its clock, ns.
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
    """Return offset and uncertainty of ranks that met a rank whose clock is known."""
    base = meetings.filter(pl.col("rank") == known).select("key", base_start="start_ns", base_end="end_ns")
    pairs = meetings.filter(pl.col("rank").is_in(sorted(ranks))).join(base, on="key")
    if pairs.is_empty():
        return {}
    table = pairs.group_by("rank").agg(
        (pl.col("start_ns") - pl.col("base_end")).max().alias("least"),
        (pl.col("end_ns") - pl.col("base_start")).min().alias("most"),
        (pl.col("end_ns") - pl.col("base_end")).median().alias("middle"),
    )
    found = {}
    for rank, least, most, middle in table.iter_rows():
        low, high = min(least, most), max(least, most)  # they cross where a clock drifts
        offset = int(min(max(middle, low), high))
        found[rank] = offset, max(high - offset, offset - low)
    return found
