"""Say how the ranks of a job ended, which rank ended first, and which rank did not begin the exchange of another.

These sentences state only what the records show. The time of a killed process's end is not known, so only its last
record is stated. A rank did not begin an exchange if it recorded fewer exchanges of this operation and group than the
rank that waits, and if both recordings are complete.
"""

from collections.abc import Mapping
from typing import Final

from ms_profiler.analysis.cluster.ending import Ending
from ms_profiler.analysis.cluster.rank_account import RankAccount
from ms_profiler.analysis.driver import liveness

#: ends of a process whose time is not known; empty for other tools' results, and processes of another machine
_OPEN: Final = ("", liveness.STOPPED, liveness.RUNNING, liveness.UNKNOWN, liveness.BY_PARENT)
#: ends of a process that need no sentence
USUAL: Final = (*_OPEN, liveness.EXIT)
#: two ranks ended one after the other if their ends are at least this many ns apart
_APART_NS: Final = 1_000_000
#: largest number of ranks that get a sentence
_LISTED: Final = 8


def sentences(accounts: Mapping[int, RankAccount]) -> list[str]:
    """Return sentences about each rank that did not end normally. On one machine, the earliest last record comes first.

    Args:
        accounts: rank -> its figures (its account).
    """
    unusual = [rank for rank, known in accounts.items() if known.end not in USUAL]
    if not unusual:
        return []
    one_clock = len({(known.host, known.boot) for known in accounts.values()}) == 1
    if one_clock:
        unusual.sort(key=lambda rank: accounts[rank].ended_ns)
    most = max(_last_step(known) for known in accounts.values())
    found = _first(accounts) if one_clock else []
    for rank in unusual[:_LISTED]:
        found.append(_how(rank, accounts[rank], most))
        found += _halted(rank, accounts, one_clock)
    rest = len(unusual) - _LISTED
    return [*found, f"{rest} more ranks did not end normally: `--json` has all."] if rest > 0 else found


def _first(accounts: Mapping[int, RankAccount]) -> list[str]:
    """Return a sentence about the rank that ended before all others; none if this is not certain."""
    ordered = sorted(accounts.values(), key=lambda known: known.ended_ns)
    missing = len(ordered) < max(known.world_size for known in ordered)
    if missing or len(ordered) < 2 or not _is_exact(ordered[0].end):
        return []
    first, second = ordered[:2]
    gap = second.ended_ns - first.ended_ns
    if gap < max(_APART_NS, (first.uncertainty_ns or 0) + (second.uncertainty_ns or 0)):
        return []
    which = "the end" if _is_exact(second.end) else "the last record"
    how = f" ({first.end})" * (first.end in USUAL)
    return [f"Rank {first.rank} ended first{how}, {_time(gap)} before {which} of rank {second.rank}."]


def _is_exact(end: str) -> bool:
    """Return whether the time is known at which a process ended."""
    return end not in _OPEN and not liveness.is_killed(end)


def _how(rank: int, known: RankAccount, most: int) -> str:
    """Return a sentence that says how a rank ended, how long after its last step, and if others came further."""
    last = _last_step(known)
    further = f"; others came to step {most}" * (last < most)
    found = known.ending
    if found is None or found.step is None:
        early = f" in step {last}{further}" * bool(further)
        return f"Rank {rank} ended with {known.end}{early}."
    past = _time(known.ended_ns - found.step_end_ns)
    moment = f", {past} after step {found.step}" if _is_exact(known.end) else ""
    record = "" if moment else f"; its last record is {past} after step {found.step}"
    return f"Rank {rank} ended with {known.end}{moment}{record}{further}."


def _halted(rank: int, accounts: Mapping[int, RankAccount], one_clock: bool) -> list[str]:
    """Return sentences about the phase that did not end, its exchange, and the ranks that did not begin it."""
    found = accounts[rank].ending
    if found is None:
        return []
    if not found.phase:
        none = found.complete and found.step is not None and not _is_exact(accounts[rank].end)
        text = f"After step {found.step}, rank {rank} recorded no forward pass, backward pass or other phase."
        return [text] if none else []
    if not found.halted:
        return []
    how = "ended with an exception" if found.raised else "had not ended"
    text = f"In rank {rank}, {found.phase} {how} after {_time(found.end_ns - found.start_ns)}"
    if not found.operation:
        return [f"{text}."]
    named = f"{found.operation} {found.number}" if found.complete else found.operation
    members = accounts[rank].groups.get(found.group, [])
    among = f" of ranks {', '.join(map(str, members))}" if 1 < len(members) <= _LISTED else ""
    texts = [f"{text}; {named}{among} took {_time(found.exchange_ns)} of it."]
    absent = [other for other in members if other != rank and _absent(found, accounts[rank], accounts.get(other))]
    if one_clock and found.complete and absent:
        # the last records of a killed process may be missing
        for began, ranks in (
            ("did not begin", [other for other in absent if _is_exact(accounts[other].end)]),
            ("recorded no begin of", [other for other in absent if not _is_exact(accounts[other].end)]),
        ):
            if ranks:
                listed = ", ".join(map(str, ranks[:_LISTED])) + " and more" * (len(ranks) > _LISTED)
                texts.append(f"Rank{'s' * (len(ranks) > 1)} {listed} {began} {named}.")
    return texts


def _absent(waiting: Ending, account: RankAccount, other: RankAccount | None) -> bool:
    """Return whether a rank certainly did not begin the exchange in which another rank waited.

    Args:
        waiting: the ending of the rank that waited.
        account: the account of this rank.
        other: the account of the rank in question; None if there is no result of it.
    """
    found = None if other is None else other.ending
    if other is None or found is None or not found.complete:
        return False
    # the exchange may have begun in a phase that was open at the end, before it was recorded
    busy = found.phase and (found.halted or found.end_ns > waiting.exchange_start_ns)
    if busy or found.exchanged_ns > waiting.exchange_start_ns:
        return False
    kinds = ({group for kind, group, _ in each.counts if kind == waiting.operation} for each in (waiting, found))
    known = all(account.groups.get(group) for group in set().union(*kinds))
    same = other.groups.get(waiting.group) == account.groups.get(waiting.group)
    made = sum(n for kind, group, n in found.counts if (kind, group) == (waiting.operation, waiting.group))
    is_joint = any(kind == waiting.operation for kind, _, _ in waiting.counts)
    return is_joint and known and same and made <= waiting.number


def _last_step(known: RankAccount) -> int:
    return int(known.steps["step"].max() or 0)  # type: ignore[arg-type]


def _time(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:.2f} s" if nanoseconds >= 10**9 else f"{nanoseconds / 1e6:.1f} ms"
