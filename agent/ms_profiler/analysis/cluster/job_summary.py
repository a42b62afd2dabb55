"""The summary of all ranks of a job: one finding for people, and the facts for programs."""

from collections import Counter
from itertools import pairwise
from typing import Any, Final

from ms_profiler.analysis.cluster import parallel_files
from ms_profiler.analysis.cluster.goodput import Goodput
from ms_profiler.analysis.cluster.late_causes import UNKNOWN, Cause
from ms_profiler.analysis.cluster.lateness import Late, Lateness
from ms_profiler.analysis.cluster.whole_job import WholeJob

VERSION: Final = 1
#: largest number of ranks that a sentence lists one by one
LISTED: Final = 6
LATE, WAITS, EVEN, ALONE = "late", "waits", "even", "alone"
#: a rank counts as waiting if it waits for other ranks for at least this share of the time of the steps
WAIT_SHARE: Final = 0.05
#: if threads wait for a processor for at least this share of the time of the steps, the machine has too few processors
SHORT: Final = 0.1
#: if the cause of a rank's lateness takes a part of the lateness between these limits, the two count as equal
WHOLE: Final = (0.8, 1.25)
#: ranks made different numbers of steps if the numbers differ by more than this share
UNEVEN: Final = 0.02
#: steps in which a rank is late are regular if at least this share of their distances, and this number, are equal
REGULAR, TIMES = 0.8, 4
#: largest number of steps that are listed
STEPS: Final = 1000


def summary(job: WholeJob) -> dict[str, Any]:
    """Return the summary of a job, for programs.

    Args:
        job: the ranks of the job.
    """
    found = job.lateness
    return {
        "version": VERSION,
        "verdict": verdict(job),
        "world_size": job.world_size,
        "missing_ranks": job.missing,
        "steps": found.steps,
        "passed_steps": found.passed,
        "sampled_of_steps": found.made or None,
        "steps_ms": _ms(found.total_ns),
        "late": [_late(job, late, cause) for late, cause in job.late],
        "lost_ms": _ms(found.lost_ns) if job.late else 0.0,
        "slow_links": [],
        "imbalance_ms": _ms(found.imbalance_ns),
        "processor_wait_share": round(job.queued_share, 6),
        "pipeline": parallel_files.pipeline(job.pipeline),
        "experts": [parallel_files.experts(each) for each in job.experts],
        "ranks": [_rank(job, rank) for rank in job.accounts],
        "critical": [
            {"step": row["step"], "rank": row["rank"], "median_wait_ms": _ms(row["wait_ns"])}
            for row in found.critical.head(STEPS).iter_rows(named=True)
        ],
        "goodput": None if job.goodput is None else _goodput(job.goodput),
        "remarks": [*job.ended, *_uneven(job), *job.remarks],
    }


def verdict(job: WholeJob) -> str:
    """Return the finding over all ranks, in one or two sentences."""
    if len(job.accounts) < 2:
        return "There is the result of one rank only: whether it is late or waits is unknown."
    if len(job.exchanging) < 2:
        return "No exchange of these ranks with others was recorded: none of them waits for another."
    found, late = job.lateness, job.late
    if not found.steps:
        return "These ranks share no step with an exchange: it is unknown which rank is late."
    if not late:
        part = found.imbalance_ns / max(found.total_ns, 1)
        none = f"None of these {len(job.accounts)} ranks" if job.missing else "No rank"
        among = " in the compared steps" * bool(_compared(found))
        even = f"{none} is late{among}: the last rank of a step is behind the mean by {part:.0%} of the step."
        short = f" Threads wait for a processor for {job.queued_share:.0%} of the steps: the machine lacks processors."
        return even + short * (job.queued_share >= SHORT) + _compared(found)
    first, cause = late[0]
    waiting = [rank for rank in job.accounts if role(job, rank) == WAITS]
    if len(late) == 1:
        sentence = _one(first, cause, found)
    else:
        kinds = {known.kind for _, known in late}
        one = f"; the latest is rank {first.rank}: {cause.sentence}"
        each = ": " if cause.kind == UNKNOWN else ", each because "
        shared = f"{each}{cause.sentence}" if len(kinds) == 1 else one
        sentence = f"Ranks {_listed([each.rank for each, _ in late])} are late{shared}"
    lost = f"that costs {_seconds(found.lost_ns)} of {_seconds(found.total_ns)}"
    share = f" ({found.lost_ns / max(found.total_ns, 1):.0%})"
    waits = f"{_ranks(waiting)} wait{'s' * (len(waiting) == 1)} for {'it' if len(late) == 1 else 'them'}"
    return f"{sentence}. {waits if waiting else 'Others wait for it'}, and {lost}{share}.{_compared(found)}"


def role(job: WholeJob, rank: int) -> str:
    """Return the role of a rank: `LATE`, `WAITS` (for other ranks), `EVEN` (neither), or `ALONE` (waits unknown)."""
    if any(late.rank == rank for late, _ in job.late):
        return LATE
    waited = job.waits.get(rank)
    if waited is None:
        return ALONE
    waits = bool(job.late) and waited >= WAIT_SHARE * max(job.lateness.total_ns, 1)
    return WAITS if waits else EVEN


def _compared(found: Lateness) -> str:
    """Return a sentence about the number of compared steps; empty if the ranks recorded all their steps."""
    if found.passed >= found.made:
        return ""
    sampled = f" Only {found.passed} of {found.made} steps are compared, because the ranks recorded a sample of them."
    return f"{sampled} All times are of the compared steps."


def _one(late: Late, cause: Cause, found: Lateness) -> str:
    steps, few = found.steps, found.passed > found.steps
    partly = not WHOLE[0] <= cause.excess_ns / max(late.excess_ns, 1) <= WHOLE[1] and cause.kind != UNKNOWN
    if not late.moments:
        whole, more = (
            f"{_milliseconds(excess / max(found.passed, 1))} a step" for excess in (late.excess_ns, cause.excess_ns)
        )
        each = f", or {_milliseconds(late.excess_ns / max(steps, 1))} for each of the {steps} steps with an exchange"
        if partly:
            return f"Rank {late.rank} is late by {whole}{each * few}: {cause.sentence}, {more} more than the others"
        return f"Rank {late.rank} is late: {cause.sentence}, {whole} more than the others{each * few}"
    of_it = f", {_seconds(cause.excess_ns)} more than the others" * partly
    if len(late.moments) == 1:
        (step,) = late.moments
        return f"Rank {late.rank} is late once, in step {step}, by {_seconds(late.excess_ns)}: {cause.sentence}{of_it}"
    excess = f"by {_seconds(late.excess_ns)} in all, most in step {late.worst}"
    with_one = " with an exchange" * few + _when(late, found)
    in_steps = f"in {len(late.moments)} of {steps} steps{with_one}"
    return f"Rank {late.rank} is late {in_steps}, {excess}: {cause.sentence}{of_it}"


def _when(late: Late, found: Lateness) -> str:
    """Return the period in which a rank is late, or its steps at equal distances, in parentheses; otherwise nothing."""
    if late.period is None:
        distances = Counter(after - before for before, after in pairwise(late.moments))
        distance, times = distances.most_common(1)[0] if distances else (0, 0)
        if found.made or distance < 2 or times < max(REGULAR * (len(late.moments) - 1), TIMES):
            return ""
        one = next(before for before, after in pairwise(late.moments) if after - before == distance)
        return f" (steps {one}, {one + distance}, {one + 2 * distance}, ...)"
    first, last = late.period
    begin, end, compared = f"step {first}", f"step {last}", found.critical["step"].to_list()
    if found.made:
        begin = _between(max((step for step in compared if step < first), default=first - 1) + 1, first)
        end = _between(last, min((step for step in compared if step > last), default=last + 1) - 1)
    return f" (from {begin} on)" if last == compared[-1] else f" (from {begin} to {end})"


def _between(low: int, high: int) -> str:
    """Return words for a step that is known, or known to lie between two steps that the ranks recorded."""
    return f"step {low}" if low == high else f"a step between {low} and {high}"


def _late(job: WholeJob, late: Late, cause: Cause) -> dict[str, Any]:
    chain = job.chain(late)
    return {
        "rank": late.rank,
        "cause": cause.kind,
        "why": cause.sentence,
        "excess_ms": _ms(late.excess_ns),
        "excess_per_step_ms": _ms(late.excess_ns / max(job.lateness.passed, 1)),
        "excess_per_exchanging_step_ms": _ms(late.excess_ns / max(job.lateness.steps, 1)),
        "share": round(late.share, 6),
        "saved_at_median_ms": _ms(late.saved_ns),
        "step": late.moments[0] if len(late.moments) == 1 else None,
        "late_in_steps": list(late.moments[:STEPS]),
        "period": late.period,
        "last_in_steps": late.steps,
        "parts_ms": {part: _ms(excess) for part, excess in cause.parts.items() if excess},
        "parts_estimated_from_steps": cause.examined,
        "delays": None
        if chain is None
        else {
            "step": chain.step,
            "operation": chain.operation,
            "number": chain.number,
            "late_ms": _ms(chain.late_ns),
            "waiting_ranks": chain.waiting,
        },
    }


def _goodput(found: Goodput) -> dict[str, Any]:
    """Return the goodput for programs; each time is the mean over the ranks."""
    mean = max(found.ranks, 1)
    return {
        "share": round(found.useful_ns / max(found.total_ns, 1), 6),
        "total_ms": _ms(found.total_ns / mean),
        "useful_ms": _ms(found.useful_ns / mean),
        "parts_ms": {part: _ms(value / mean) for part, value in found.parts.items()},
        "starts": [
            {
                "start": start.number + 1,
                "results": start.ranks,
                "steps": start.steps,
                "saved_to_step": start.saved,
                "lost_steps": start.lost,
                "read_checkpoint": start.loaded,
                "ended_with": list(start.ends),
            }
            for start in found.starts
        ],
        "remarks": found.remarks,
    }


def _rank(job: WholeJob, rank: int) -> dict[str, Any]:
    known, clock = job.accounts[rank], job.clocks[rank]
    waited, part = job.waits.get(rank), role(job, rank)
    if part != WAITS and rank in job.untold:
        waited = None
    return {
        "rank": rank,
        "directory": known.directory,
        "host": known.host,
        "role": part,
        "wait_ms": None if waited is None else _ms(waited),
        "end": known.end,
        "verdict": known.verdict,
        "clock": {
            "offset_ms": _ms(clock.offset_ns),
            "uncertainty_ms": None if clock.uncertainty_ns is None else _ms(clock.uncertainty_ns),
            "by": clock.by,
        },
    }


def _ranks(ranks: list[int]) -> str:
    return f"Rank {ranks[0]}" if len(ranks) == 1 else f"Ranks {_listed(ranks)}"


def _uneven(job: WholeJob) -> list[str]:
    """Return a sentence about ranks that made more steps than others; none if a rank did not end normally."""
    counts: dict[int, list[int]] = {}
    for rank, known in job.accounts.items():
        if known.stepped:
            counts.setdefault(known.steps.height, []).append(rank)
    most, least = max(counts, default=0), min(counts, default=0)
    if job.ended or most - least <= max(1, UNEVEN * most):
        return []
    return [f"{_ranks(sorted(counts[most]))} made {most} steps, {_ranks(sorted(counts[least])).lower()} made {least}."]


def _listed(ranks: list[int]) -> str:
    if len(ranks) > LISTED:
        return f"{', '.join(map(str, ranks[:LISTED]))} and {len(ranks) - LISTED} more"
    return " and ".join(filter(None, (", ".join(map(str, ranks[:-1])), str(ranks[-1]))))


def _ms(nanoseconds: float) -> float:
    return round(nanoseconds / 1e6, 6)


def _seconds(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e9:.2f} s"


def _milliseconds(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:.1f} ms"
