"""All ranks of one job: select the results that belong together, and compute their findings."""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import polars as pl

from ms_profiler.analysis.cluster import clock_offsets, expert_load, goodput, late_causes, lateness, stage_bubbles
from ms_profiler.analysis.cluster.expert_load import Experts
from ms_profiler.analysis.cluster.goodput import Goodput
from ms_profiler.analysis.cluster.late_causes import Cause
from ms_profiler.analysis.cluster.lateness import Late, Lateness
from ms_profiler.analysis.cluster.rank_account import RankAccount
from ms_profiler.analysis.cluster.stage_bubbles import Pipeline

#: ns by which the wall clocks of machines may differ
CLOCKS_NS: Final = 60_000_000_000
#: a rank does more work than others if its processes take so many times their time of processors
TWICE: Final = 2.0
#: ends of a process that need no remark; the end is empty for other tools and for processes of another machine
_USUAL: Final = ("", "exit", "stopped", "running", "unknown", "ended by its parent")


@dataclass(frozen=True)
class Chain:
    """One exchange for which a rank is late.

    Attributes:
        rank: the late rank.
        step: the number of the step.
        operation: the operation of the exchange.
        number: the number of the exchange among those of its operation and group, from 0.
        late_ns: how much later the rank came than the median of the others.
        waiting: the ranks that wait.
    """

    rank: int
    step: int
    operation: str
    number: int
    late_ns: int
    waiting: int


@dataclass
class WholeJob:
    """The ranks of a job.

    Attributes:
        accounts: the accounts by rank, with `exchanged.MARKED` as exchanges.
        remarks: a sentence for each part that is missing or left out.
        starts: the accounts of all starts of these ranks, earlier ones included.
    """

    accounts: dict[int, RankAccount]
    remarks: list[str] = field(default_factory=list)
    starts: list[RankAccount] = field(default_factory=list)

    @cached_property
    def goodput(self) -> Goodput | None:
        """Return the goodput over all starts; None where no rank made a step."""
        return goodput.goodput(self.starts)

    @property
    def world_size(self) -> int:
        """Return the number of ranks of the job."""
        return max([max(self.accounts) + 1, *(known.world_size for known in self.accounts.values())])

    @property
    def missing(self) -> list[int]:
        """Return the ranks without a result."""
        return sorted(set(range(self.world_size)) - set(self.accounts))

    @property
    def ended(self) -> list[str]:
        """Return the ranks that did not end normally, or that have fewer steps than others for that reason."""
        last = {rank: int(known.steps["step"].max() or 0) for rank, known in self.accounts.items()}  # type: ignore[arg-type]
        most = max(last.values(), default=0)
        told = []
        for rank, known in self.accounts.items():
            if known.end in _USUAL:
                continue
            early = f" in step {last[rank]}; others came to step {most}" * (last[rank] < most)
            told.append(f"Rank {rank} ended with {known.end}{early}.")
        return told

    @property
    def exchanging(self) -> list[int]:
        """Return the ranks that took part in an exchange."""
        return [rank for rank, known in self.accounts.items() if not known.exchanges.is_empty()]

    @cached_property
    def lateness(self) -> Lateness:
        """Return the late ranks, without ranks that are late in single steps because of other programs."""
        return self._lateness(pl.col("own_ns"))

    def _lateness(self, own: pl.Expr) -> Lateness:
        known = pl.concat(each.steps.with_columns(rank=pl.lit(each.rank, pl.Int64)) for each in self.accounts.values())
        lengths = [_total(each) for each in self.accounts.values()]
        total = int(pl.Series(lengths, dtype=pl.Int64).median() or 0)  # type: ignore[arg-type]
        return lateness.lateness(known.select("rank", "step", own.alias("own_ns")), total)

    @cached_property
    def causes(self) -> dict[int, Cause]:
        """Return the causes of the late ranks."""
        found = self.lateness.late
        if not found:
            return {}
        # without the time for which threads waited for processors
        alone = self._lateness((pl.col("own_ns") - pl.col("queued_ns").fill_null(0)).clip(lower_bound=0))
        hindered = {each.rank for each in found} - {each.rank for each in alone.late} - self._busier(found)
        tables = [known.parts.with_columns(rank=pl.lit(known.rank, pl.Int64)) for known in self.accounts.values()]
        return late_causes.causes(pl.concat(tables), found, hindered)

    def _busier(self, late: list[Late]) -> set[int]:
        """Return the late ranks whose processes took far more time of processors than those of the others.

        They do more work. A processor that is shared takes longer for the same work, but hardly twice as long.
        """
        taken = {rank: known.steps.drop_nulls("own_ns")["processor_ns"] for rank, known in self.accounts.items()}
        means = {rank: float(ran.mean() or 0) for rank, ran in taken.items() if ran.count()}  # type: ignore[arg-type]
        found = set()
        for each in late:
            others = [mean for rank, mean in means.items() if rank != each.rank]
            if each.rank in means and others and not each.moments:
                usual = statistics.median(others)
                more = (means[each.rank] - usual) * len(taken[each.rank])
                if means[each.rank] >= TWICE * usual and more >= late_causes.PART * each.excess_ns:
                    found.add(each.rank)
        return found

    @cached_property
    def late(self) -> list[tuple[Late, Cause]]:
        """Return the late ranks with their causes, the latest first."""
        return [(found, self.causes[found.rank]) for found in self.lateness.late if found.rank in self.causes]

    @cached_property
    def waits(self) -> dict[int, int]:
        """Return by rank the ns that it waited for the last rank of each step, over all steps."""
        return dict(self.lateness.waits.iter_rows())

    @cached_property
    def pipeline(self) -> Pipeline | None:
        """Return the stages of the pipeline with their bubbles; None where they are not known."""
        return stage_bubbles.pipeline(self.accounts)

    @cached_property
    def experts(self) -> list[Experts]:
        """Return the groups of ranks that share experts, with the load of each rank."""
        return expert_load.experts(self.accounts)

    @cached_property
    def clocks(self) -> dict[int, clock_offsets.Offset]:
        """Return the clocks of the ranks."""
        return clocks(self.accounts)

    def chain(self, late: Late) -> Chain | None:
        """Return the first exchange of the step in which a rank is latest; None where the rank exchanged nothing
        there."""
        inside = self.accounts[late.rank].exchanges.filter(pl.col("step") == late.worst)
        if inside.is_empty():
            return None
        first = inside.row(0, named=True)
        return Chain(late.rank, late.worst, first["operation"], first["number"], late.worst_ns, late.ahead)


def collect(accounts: Iterable[RankAccount], remarks: list[str]) -> WholeJob:
    """Return the job to which accounts belong; if they are of several runs, the last run.

    Args:
        accounts: the accounts of results.
        remarks: a sentence for each result that could not be read.
    """
    told, known_accounts = list(remarks), list(accounts)
    members = last_run(known_accounts, told)
    roles: dict[str, list[RankAccount]] = {}
    for known in members:
        roles.setdefault(known.role, []).append(known)
    chosen = max(roles.values(), key=lambda same: (len(same), sum(not each.exchanges.is_empty() for each in same)))
    for role, same in roles.items():
        if same is not chosen:
            what = f"of the role {role}" if role else "without a role"
            told.append(f"{len(same)} result{'s' * (len(same) > 1)} {what}: left out of the comparison of ranks.")
    ranks: dict[int, RankAccount] = {}
    for known in chosen:
        if known.rank in ranks:
            told.append(f"{known.directory} is of another actor that is rank {known.rank}; it is left out.")
        ranks.setdefault(known.rank, known)
    return WholeJob(ranks, told, _starts(known_accounts, ranks.values()))


def _starts(accounts: Iterable[RankAccount], last: Iterable[RankAccount]) -> list[RankAccount]:
    """Return the accounts of the last starts of ranks, and those of earlier starts by the same launcher."""
    chosen = list(last)
    launches = {(each.host, each.boot, each.job, each.role) for each in chosen if each.job}
    newest = {each.directory for each in chosen}
    latest = max((each.attempt for each in chosen), default=0)
    earlier = [
        each
        for each in accounts
        if (each.host, each.boot, each.job, each.role) in launches
        and each.directory not in newest
        and each.attempt < latest
    ]
    return sorted([*earlier, *chosen], key=lambda each: (each.attempt, each.rank, each.started_ns))


def last_run(accounts: Iterable[RankAccount], remarks: list[str]) -> list[RankAccount]:
    """Return the accounts of the last run, by role and rank; the newest of each rank and actor.

    A script that profiles with a schedule may leave a last trace in which nothing ran. So the newest trace with an
    exchange counts.

    Args:
        accounts: the accounts of results.
        remarks: receives a sentence for each result that is left out.
    """
    known = sorted(accounts, key=lambda each: (_tells(each), each.started_ns))
    chosen: dict[tuple[str, int, str], RankAccount] = {}
    newest = known[-1] if known else None
    for each in reversed(known):
        # Ray actors that are not ranks of one job all have rank 0
        key = each.role, each.rank, each.actor if each.world_size <= 1 else ""
        if newest is not None and each.ended_ns + CLOCKS_NS < newest.started_ns:
            remarks.append(f"{each.directory} is of a run that ended before this one began; it is left out.")
        elif key in chosen and not _tells(each) and _tells(chosen[key]):
            remarks.append(
                f"{each.directory} has no exchange of rank {each.rank}, as another trace has; it is left out."
            )
        elif key in chosen:
            ended = f", which ended with {each.end}," if each.end not in _USUAL else ""
            start = f" of start {each.attempt + 1}" if chosen[key].attempt else ""
            remarks.append(f"{each.directory} is an older result of rank {each.rank}{start}{ended}; it is left out.")
        else:
            chosen[key] = each
    return [chosen[key] for key in sorted(chosen)]


def _tells(account: RankAccount) -> bool:
    """Return whether a result is of our launch, or a trace with an exchange."""
    return bool(account.job) or not account.exchanges.is_empty()


def clocks(accounts: Mapping[int, RankAccount]) -> dict[int, clock_offsets.Offset]:
    """Return the clock offsets of accounts from the account with the lowest number.

    Args:
        accounts: the accounts, by a number, with `exchanged.MARKED` as exchanges.
    """
    return clock_offsets.offsets(
        pl.concat([_meetings(number, known) for number, known in accounts.items()]),
        {number: f"{known.host} {known.boot}" if known.boot else "" for number, known in accounts.items()},
        {number: known.uncertainty_ns for number, known in accounts.items()},
    )


def _total(known: RankAccount) -> int:
    counted = known.steps.drop_nulls("own_ns")
    return int((counted["end_ns"] - counted["start_ns"]).sum())


def _meetings(number: int, known: RankAccount) -> pl.DataFrame:
    """Return the last joint exchange of each group and operation in each step, with a key that all its ranks share."""
    last = pl.col("place") == pl.col("count")
    joint = known.exchanges.filter(last, pl.col("operation").is_in(clock_offsets.JOINT))
    names = joint["group"].replace({name: ",".join(map(str, ranks)) for name, ranks in known.groups.items()})
    return joint.with_columns(names).select(
        pl.lit(number, pl.Int64).alias("rank"),
        pl.format("{}|{}|{}|{}|{}", pl.lit(known.role), "group", "operation", "step", "count").alias("key"),
        "start_ns",
        "end_ns",
    )
