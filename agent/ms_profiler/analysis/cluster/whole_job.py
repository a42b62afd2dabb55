"""All ranks of one job: select the results that belong together, and compute findings about them."""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import polars as pl

from ms_profiler.analysis.cluster import (
    clock_offsets,
    endings,
    exchange_steps,
    expert_load,
    goodput,
    late_causes,
    lateness,
    module_times,
    parallel_groups,
    sampled_steps,
    separate_jobs,
    stage_bubbles,
    stage_waits,
)
from ms_profiler.analysis.cluster.expert_load import Experts
from ms_profiler.analysis.cluster.goodput import Goodput
from ms_profiler.analysis.cluster.late_causes import Cause
from ms_profiler.analysis.cluster.lateness import Late, Lateness
from ms_profiler.analysis.cluster.rank_account import RankAccount
from ms_profiler.analysis.cluster.stage_bubbles import Pipeline
from ms_profiler.analysis.model import clock

#: largest number of ranks that a remark lists
_LISTED: Final = 8


@dataclass(frozen=True)
class Chain:
    """The exchange of a step to which a rank comes late, and the ranks that wait in it.

    Attributes:
        rank: the late rank.
        step: the number of the step.
        operation: the operation of the exchange.
        number: index of the exchange among the exchanges of the same operation and group, from 0.
        late_ns: how much later the rank came than the median of the other ranks.
        waiting: the number of ranks that wait.
    """

    rank: int
    step: int
    operation: str
    number: int
    late_ns: int
    waiting: int


@dataclass
class WholeJob:
    """The ranks of a job, with their figures and the findings about them.

    Attributes:
        accounts: rank -> its figures (its account), with the columns of `exchanged.MARKED` for its exchanges.
        remarks: a sentence for each result that could not be read or is left out.
        starts: the accounts of all starts of these ranks; this includes earlier starts.
        others: the directories of results that are left out: they are of other jobs, or older.
    """

    accounts: dict[int, RankAccount]
    remarks: list[str] = field(default_factory=list)
    starts: list[RankAccount] = field(default_factory=list)
    others: frozenset[str] = frozenset()

    @cached_property
    def goodput(self) -> Goodput | None:
        """Return the goodput (share of time spent training) over all starts; None if no rank made a step."""
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
        """Return sentences about the ranks that did not end normally."""
        return endings.sentences(self.accounts)

    @property
    def exchanging(self) -> list[int]:
        """Return the ranks that took part in an exchange."""
        return [rank for rank, known in self.accounts.items() if not known.exchanges.is_empty()]

    @cached_property
    def lateness(self) -> Lateness:
        """Return the late ranks. Ranks that are late only in single steps because of other programs are left out."""
        return self._lateness("own_ns")

    def _lateness(self, own: str) -> Lateness:
        """Return the ranks that would be late if the own times were those in the column `own`.

        An own time is the time from the end of one exchange until the rank is ready for the next. The column is
        `own_ns`, or `alone_ns`: the own time minus the rank's waits for a processor. If another rank waits for a
        processor for as long as this rank, the waits do not change the excess of this rank. So `alone_ns` may be
        negative, because a rank also waits for a processor during exchanges. With `alone_ns`, a step counts as shorter
        by max(`own_ns`) - max(`alone_ns`).
        """
        known = pl.concat(
            _timed(each.steps).with_columns(rank=pl.lit(each.rank, pl.Int64)) for each in self.accounts.values()
        )
        # a rank whose waits are unknown is given the usual waits, which do not change its excess
        waits = pl.col("queued_ns").fill_null(pl.col("queued_ns").median().over("step").cast(pl.Int64)).fill_null(0)
        known = known.with_columns(alone_ns=pl.col("own_ns") - waits)
        shared = known.drop_nulls("own_ns").filter(pl.len().over("step") > 1)
        saved = pl.col("own_ns").max() - pl.col(own).max().clip(lower_bound=0)
        times = shared.group_by("step").agg(
            (pl.max_horizontal(pl.col("passed_ns").median(), pl.col("own_ns").max()) - saved).clip(lower_bound=1),
            (pl.col("within_ns").median() - saved).clip(lower_bound=1),
            pl.col("count").median(),
        )
        sums = times.select(pl.col("passed_ns", "within_ns", "count").sum().cast(pl.Int64)).row(0)
        weighted = known.join(sampled_steps.weights(known, shared), on="step", how="left", maintain_order="left")
        own_times = weighted.select("rank", "step", "exchange_ns", "weight", "messages_ns", own_ns=own)
        own_times = own_times.with_columns(first=pl.col("rank").replace(self._connected))
        found = lateness.lateness(own_times, *sums[:2])
        return replace(found, passed=max(sums[2], found.steps), made=sampled_steps.made(known))

    @property
    def _connected(self) -> dict[int, int]:
        """Return for each rank the lowest rank that exchanges with it; all ranks are one if a group is unknown."""
        every = list(self.accounts)
        used = {
            rank: [known.groups.get(name, every) for name in known.exchanges["group"].unique(maintain_order=True)]
            for rank, known in self.accounts.items()
        }
        return parallel_groups.connected(used)

    @cached_property
    def causes(self) -> dict[int, Cause]:
        """Return the causes of the late ranks."""
        found = self.lateness.late
        if not found:
            return {}
        # to see the effect of waits for a processor, find the ranks that would be late without these waits
        alone = self._lateness("alone_ns")
        worked = late_causes.worked({rank: known.steps for rank, known in self.accounts.items()}, found)
        hindered = {each.rank for each in found} - {each.rank for each in alone.late}
        hindered -= {rank for rank, more in worked.items() if more}
        parts = exchange_steps.gathered(self.accounts)
        causes = late_causes.causes(parts, found, hindered, worked, self.lateness.steps)
        ranks = {each.rank: each for each in found}
        return {rank: replace(cause, name=self._named(cause, ranks[rank])) for rank, cause in causes.items()}

    def _named(self, cause: Cause, found: Late) -> str:
        """Return the module or operator that takes most of the cause of a rank's lateness; empty if it is unknown.

        Args:
            cause: the cause.
            found: the rank's lateness.
        """
        own = self.accounts[cause.rank]
        if cause.kind not in module_times.WORK:
            return own.between.get(cause.kind, "")
        if not found.often:  # its mean step does not show why it is late
            peak = own.peaks.get(cause.kind, {"steps": (), "module": ""})
            shown = set(found.moments) & set(peak["steps"])
            return peak["module"] if len(shown) >= module_times.SHOWN * max(len(found.moments), 1) else ""
        late = {each.rank for each in self.lateness.late}
        others = [each.modules for rank, each in self.accounts.items() if rank not in late]
        return module_times.longer(cause.kind, own.modules, others)

    @cached_property
    def late(self) -> list[tuple[Late, Cause]]:
        """Return the late ranks with their causes, the latest first."""
        return [(found, self.causes[found.rank]) for found in self.lateness.late if found.rank in self.causes]

    @cached_property
    def waits(self) -> dict[int, int]:
        """Return for each rank the time in ns that it waited for other ranks, summed over all steps."""
        return dict(self.lateness.waits.iter_rows())

    @cached_property
    def untold(self) -> frozenset[int]:
        """Return the ranks that exchange messages whose waits are unknown, so that a short wait is no finding."""
        return frozenset(
            rank
            for rank, known in self.accounts.items()
            if known.steps["messages_ns"].count() == 0 and not known.exchanges.filter(stage_waits.MESSAGE).is_empty()
        )

    @cached_property
    def queued_share(self) -> float:
        """Return the share of the steps' time in which the median rank's threads waited for a CPU; 0 if unknown."""
        lengths = (pl.col("end_ns") - pl.col("start_ns")).alias("length")
        tables = [known.steps.drop_nulls("own_ns").select("queued_ns", lengths) for known in self.accounts.values()]
        known = [each.drop_nulls("queued_ns").sum().row(0) for each in tables if each["queued_ns"].count()]
        return statistics.median(queued / max(length, 1) for queued, length in known) if known else 0.0

    @cached_property
    def pipeline(self) -> Pipeline | None:
        """Return the stages of the pipeline with their bubbles (idle time); None if they are unknown."""
        return stage_bubbles.pipeline(self.accounts)

    @cached_property
    def experts(self) -> list[Experts]:
        """Return the groups of ranks that share experts, with the load of each rank."""
        return expert_load.experts(self.accounts)

    @cached_property
    def clocks(self) -> dict[int, clock_offsets.Offset]:
        """Return the offset of each rank's clock, by rank."""
        return clocks(self.accounts)

    def chain(self, late: Late) -> Chain | None:
        """Return the exchange that a rank delays most in its worst step; None if this step has no exchange.

        Before this exchange, the rank's own time is the longest.
        """
        inside = self.accounts[late.rank].exchanges.filter(pl.col("step") == late.worst)
        if inside.is_empty():
            return None
        first = inside.sort("own_ns", descending=True, nulls_last=True, maintain_order=True).row(0, named=True)
        # if the group of an exchange is smaller than the job, only ranks of this group wait
        members = self.accounts[late.rank].groups.get(first["group"], [])
        waiting = min(late.ahead, len(members) - 1) if len(members) > 1 else late.ahead
        return Chain(late.rank, late.worst, first["operation"], first["number"], late.worst_ns, waiting)


def collect(accounts: Iterable[RankAccount], remarks: list[str], wanted: str = "") -> WholeJob:
    """Return the job to which accounts (figures of ranks) belong. If they belong to several runs, use the last run.

    Args:
        accounts: the accounts of results.
        remarks: a sentence for each result that could not be read.
        wanted: the path of a result whose job is used; by default the newest job, as `separate_jobs.chosen` finds it.

    Raises:
        UsageError: there is no result `wanted`.
    """
    sentences, known_accounts = list(remarks), list(accounts)
    members = last_run(known_accounts, sentences, wanted)
    roles: dict[str, list[RankAccount]] = {}
    for known in members:
        roles.setdefault(known.role, []).append(known)
    chosen = max(roles.values(), key=lambda same: (len(same), sum(not each.exchanges.is_empty() for each in same)))
    for role, same in roles.items():
        if same is not chosen:
            what = f"of the role {role}" if role else "without a role"
            sentences.append(f"{len(same)} result{'s' * (len(same) > 1)} {what}: left out of the comparison of ranks.")
    ranks: dict[int, RankAccount] = {}
    for known in chosen:
        if known.rank in ranks:
            sentences.append(f"{known.directory} is of another actor that is rank {known.rank}; it is left out.")
        ranks.setdefault(known.rank, known)
    others = {each.directory for each in known_accounts} - {each.directory for each in members}
    return WholeJob(ranks, sentences, _starts(known_accounts, ranks.values()), frozenset(others))


def _starts(accounts: Iterable[RankAccount], last: Iterable[RankAccount]) -> list[RankAccount]:
    """Return the figures of the ranks' last starts, and of earlier starts by the same launchers, sorted by start."""
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


def last_run(accounts: Iterable[RankAccount], remarks: list[str], wanted: str = "") -> list[RankAccount]:
    """Return the newest account (figures) of each rank and actor from a job's last run, sorted by role and rank.

    A script that profiles with a schedule may leave a last trace in which nothing ran. So a trace with an exchange is
    preferred to newer traces without one.

    Args:
        accounts: the accounts of results.
        remarks: receives a sentence for each reason to leave results out.
        wanted: the path of a result whose job is used; by default the newest job, as `separate_jobs.chosen` finds it.

    Raises:
        UsageError: there is no result `wanted`.
    """
    known = separate_jobs.chosen(accounts, remarks, wanted)
    known.sort(key=lambda each: (_comparable(each), each.started_ns))
    chosen: dict[tuple[str, int, str], RankAccount] = {}
    newest = known[-1] if known else None
    left_out: dict[str, list[RankAccount]] = {}
    for each in reversed(known):
        key = each.place
        if newest is not None and each.ended_ns + clock.MACHINES_NS < newest.started_ns:
            left_out.setdefault("is of a run that ended before this one began", []).append(each)
        elif key in chosen and not _comparable(each) and _comparable(chosen[key]):
            left_out.setdefault("has no exchange, unlike another trace of the rank", []).append(each)
        elif key in chosen:
            ended = f", which ended with {each.end}" if each.end not in endings.USUAL else ""
            start = f" of start {each.attempt + 1}" if chosen[key].attempt else ""
            left_out.setdefault(f"is an older result{start}{ended}", []).append(each)
        else:
            chosen[key] = each
    remarks += [_left_out(why, same) for why, same in left_out.items()]
    return [chosen[key] for key in sorted(chosen)]


def _left_out(why: str, accounts: list[RankAccount]) -> str:
    """Return a sentence about results that are left out for one reason."""
    ranks = sorted({each.rank for each in accounts})
    numbers = ", ".join(map(str, ranks[:_LISTED])) + " and more" * (len(ranks) > _LISTED)
    of = f"rank{'s' * (len(ranks) > 1)} {numbers}"
    names = sorted(each.directory for each in accounts)
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return (
        f"{names[0]}{more}, of {of}: each {why}; left out." if more else f"{names[0]}, of {of}, {why}; it is left out."
    )


def _comparable(account: RankAccount) -> bool:
    """Return whether a result can be compared: ms-profiler recorded it in a launch, or it contains an exchange."""
    return bool(account.job) or not account.exchanges.is_empty()


def clocks(accounts: Mapping[int, RankAccount]) -> dict[int, clock_offsets.Offset]:
    """Return by how much each rank's clock is ahead of the clock of the rank with the lowest key.

    Args:
        accounts: a number for each rank -> its figures (its account), with `exchanged.MARKED` as exchanges.
    """
    return clock_offsets.offsets(
        pl.concat([_meetings(number, known) for number, known in accounts.items()]),
        {number: f"{known.host} {known.boot}" if known.boot else "" for number, known in accounts.items()},
        {number: known.uncertainty_ns for number, known in accounts.items()},
    )


def _timed(steps: pl.DataFrame) -> pl.DataFrame:
    """Add the times of a rank's steps from the end of one step with an exchange to the end of the next.

    The new columns are `passed_ns` (this time, which includes the time between steps), `within_ns` (the part of it that
    lies in steps) and `count` (the number of these steps). They are null in steps without an exchange.
    """
    met = pl.col("exchange_ns").is_not_null() | pl.col("own_ns").is_not_null()
    sums = steps.with_columns(
        passed_ns=pl.col("end_ns") - pl.col("start_ns").first(),
        within_ns=(pl.col("end_ns") - pl.col("start_ns")).cum_sum(),
        count=pl.int_range(1, pl.len() + 1),
    )
    names = ("passed_ns", "within_ns", "count")
    lengths = sums.filter(met).select("step", *(pl.col(name).diff().fill_null(pl.col(name)) for name in names))
    return steps.join(lengths, on="step", how="left", maintain_order="left")


def _meetings(number: int, known: RankAccount) -> pl.DataFrame:
    """Return the last joint exchange of each group and operation in each step; `key` is equal on all its ranks."""
    last = pl.col("place") == pl.col("count")
    joint = known.exchanges.filter(last, pl.col("operation").is_in(clock_offsets.JOINT))
    names = joint["group"].replace({name: ",".join(map(str, ranks)) for name, ranks in known.groups.items()})
    return joint.with_columns(names).select(
        pl.lit(number, pl.Int64).alias("rank"),
        pl.format("{}|{}|{}|{}|{}", pl.lit(known.role), "group", "operation", "step", "count").alias("key"),
        "start_ns",
        "end_ns",
    )
