"""Compare ranks that share the experts of a layer: how many bytes each rank's experts handle, and in what time.

A layer of experts has two all-to-all exchanges, as in GShard (https://arxiv.org/abs/2006.16668, section 3.1). The first
one sends tokens to the ranks of their experts, the second one sends them back. Between the two, each rank computes with
its experts. Two consecutive exchanges of a group count as such a pair if all ranks together send the same number of
bytes in both. Far smaller exchanges are left out, because they send counts or weights of tokens.

The load of a rank is the number of bytes that the rank sends back. The time of its experts is the time between the two
exchanges, by the clock of the rank.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from ms_profiler.analysis.cluster import lateness, parallel_groups
from ms_profiler.analysis.cluster.lateness import Late
from ms_profiler.analysis.cluster.rank_account import RankAccount

#: exchanges with less than 1 / `_SMALL` of the bytes of the step's largest exchange do not count as exchanges of tokens
_SMALL: Final = 16


@dataclass(frozen=True)
class Load:
    """The load of one rank that shares experts with other ranks.

    Attributes:
        rank: number of the rank.
        bytes: number of bytes of tokens that it sent back after its experts had computed.
        expert_ns: the time in which its experts computed, in ns.
        wait_ns: sum over the exchanges that send tokens back of (time of this rank - shortest time of a rank), in ns.
    """

    rank: int
    bytes: int
    expert_ns: int
    wait_ns: int


@dataclass(frozen=True)
class Experts:
    """The ranks of a group that share experts, with their loads.

    Attributes:
        known_by: the purpose of the group, which tells that its ranks share experts (`parallel_groups`).
        ranks: the load of each rank.
        steps: the number of steps that all ranks of the group share.
        lost_ns: the sum over all steps of (longest expert time of a rank - mean expert time of the ranks).
        busy: the ranks whose experts take longer than those of the other ranks, as `lateness` finds them.
        table: `rank`, `step`, `bytes`, `expert_ns`, `wait_ns`, as in `Load`, of each rank and step.
    """

    known_by: str
    ranks: list[Load]
    steps: int
    lost_ns: int
    busy: list[Late]
    table: pl.DataFrame = field(repr=False)

    @property
    def most_bytes(self) -> float:
        """Return max(bytes of a rank) / mean(bytes of the ranks), where bytes are those of the tokens of experts."""
        return _most([load.bytes for load in self.ranks])

    @property
    def most_time(self) -> float:
        """Return max(expert time of a rank) / mean(expert times of the ranks), as a measure of imbalance."""
        return _most([load.expert_ns for load in self.ranks])


def pairs(sums: Sequence[int]) -> list[int]:
    """Return the indices of the exchanges that send tokens back from experts; empty if an exchange has no partner.

    Args:
        sums: the bytes that all ranks together send in each exchange of a step.
    """
    least = max(sums, default=0) / _SMALL
    tokens = [place for place, size in enumerate(sums) if size > 0 and size >= least]
    there, back = tokens[::2], tokens[1::2]
    certain = len(there) == len(back) and all(sums[a] == sums[b] for a, b in zip(there, back, strict=True))
    return back if certain else []


def experts(accounts: Mapping[int, RankAccount]) -> list[Experts]:
    """Return the groups whose ranks share experts.

    A group is left out if one of its ranks has no result, or if its exchanges do not form pairs.

    Args:
        accounts: rank -> the figures of the rank (its account).
    """
    members: dict[tuple[int, ...], tuple[str, str]] = {}
    for known in accounts.values():
        for name, purpose in parallel_groups.of_kind(known.groups, known.purposes, parallel_groups.EXPERTS).items():
            members.setdefault(tuple(sorted(known.groups[name])), (name, purpose))
    found = [
        _experts(
            ranks, purpose, {rank: accounts[rank].sent.filter(pl.col("group") == name) for rank in ranks}, accounts
        )
        for ranks, (name, purpose) in sorted(members.items())
        if set(ranks) <= set(accounts)
    ]
    return [each for each in found if each is not None]


def _experts(
    ranks: Sequence[int],
    purpose: str,
    tables: Mapping[int, pl.DataFrame],
    accounts: Mapping[int, RankAccount],
) -> Experts | None:
    table = pl.concat([own.with_columns(rank=pl.lit(rank, pl.Int64)) for rank, own in tables.items()])
    counts = (
        table.group_by("step", "rank").len().group_by("step").agg(pl.len().alias("ranks"), pl.col("len").n_unique())
    )
    shared = counts.filter(pl.col("ranks") == len(ranks), pl.col("len") == 1).select("step")
    both = table.join(shared, on="step", how="semi")
    places = both.group_by("step", "place").agg(pl.col("bytes").sum()).sort("step", "place")
    rows = [
        (step, place)
        for (step,), own in places.group_by("step", maintain_order=True)
        for place in pairs(own["bytes"].to_list())
    ]
    back = pl.DataFrame(rows, {"step": pl.Int64, "place": pl.Int64}, orient="row")
    least = pl.col("took_ns").min().over("step", "place")
    loads = (
        both.join(back, on=["step", "place"], how="semi")
        .with_columns(wait_ns=pl.col("took_ns") - least)
        .group_by("rank", "step")
        .agg(pl.col("bytes").sum(), pl.col("before_ns").sum().alias("expert_ns"), pl.col("wait_ns").sum())
        .sort("rank", "step")
    )
    if loads.is_empty():
        return None
    lengths = [accounts[rank].steps.join(loads.select("step").unique(), on="step", how="semi") for rank in ranks]
    total = pl.Series([int((own["end_ns"] - own["start_ns"]).sum()) for own in lengths]).median()
    judged = lateness.lateness(loads.select("rank", "step", pl.col("expert_ns").alias("own_ns")), int(total or 0))  # type: ignore[arg-type]
    sums = loads.group_by("rank").agg(pl.col("bytes", "expert_ns", "wait_ns").sum()).sort("rank")
    return Experts(
        purpose, [Load(*row) for row in sums.iter_rows()], judged.steps, judged.imbalance_ns, judged.late, loads
    )


def _most(values: Sequence[int]) -> float:
    return max(values) * len(values) / max(sum(values), 1)
