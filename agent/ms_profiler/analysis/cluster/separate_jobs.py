"""Choose the results of one job from a directory that has the results of several jobs."""

import os
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ms_profiler.analysis.cluster.rank_account import RankAccount
from ms_profiler.analysis.model import clock
from ms_profiler.errors import UsageError
from ms_profiler.store import layout, run_info

#: largest number of other jobs that a remark names
_NAMED: Final = 4


def chosen(accounts: Iterable[RankAccount], remarks: list[str], wanted: str = "") -> list[RankAccount]:
    """Return the accounts (figures of ranks) of one job: the job of the wanted result, or the newest job.

    Some accounts lack the name of a launch, such as those from other tools' results. They belong to every job.

    Args:
        accounts: the accounts of results.
        remarks: receives a sentence that names the other jobs, if there are any.
        wanted: the path of a result, or the last part of the path; empty for the newest job.

    Raises:
        UsageError: the wanted result does not exist.
    """
    known = list(accounts)
    blank = [each for each in known if not each.job]
    jobs = _jobs([each for each in known if each.job])
    name = _name(wanted)
    if name and name not in {_name(each.directory) for each in known}:
        raise UsageError(
            f"There is no result {name}.", "--job needs the name of a directory that ends with _ascend_ms."
        )
    if not jobs:
        return blank
    own = next((job for job in jobs if name in {_name(each.directory) for each in job}), jobs[0])
    if len(jobs) > 1:
        remarks.append(_remark(jobs, own))
    return [*own, *blank]


def brief(directory: str, run: dict[str, Any]) -> RankAccount:
    """Return the account of a result with only those figures that tell jobs apart, for `chosen`.

    Args:
        directory: the directory of the result.
        run: `run` of its summary.
    """
    started = int(run["started_ns"])
    try:
        info = run_info.read_run(layout.run_info_path(directory))
    except (OSError, ValueError):
        info = run_info.RunInfo()
    return RankAccount(
        directory=directory,
        rank=info.rank,
        world_size=info.world_size,
        host=info.host,
        boot=info.boot_id,
        started_ns=started,
        ended_ns=started + round(run["duration_s"] * 1e9),
        end="",
        verdict="",
        uncertainty_ns=None,
        role=info.role,
        actor=info.actor.get("actor", ""),
        job=info.job,
    )


def _jobs(accounts: Sequence[RankAccount]) -> list[list[RankAccount]]:
    """Return the accounts (figures of ranks) of each job, the newest job first.

    A job has several launches if each machine or each rank has its own launcher. So two launches usually belong to one
    job. They belong to different jobs in three cases: they have a rank in common, their numbers of ranks differ, or one
    launch ended before the other launch began.
    """
    launches: dict[tuple[str, str, str, str], list[RankAccount]] = {}
    for each in accounts:
        launches.setdefault((each.host, each.boot, each.role, each.job), []).append(each)
    jobs: list[list[RankAccount]] = []
    for launch in sorted(launches.values(), key=lambda same: (-max(each.started_ns for each in same), _least(same))):
        for job in jobs:
            if _together(job, launch):
                job += launch
                break
        else:
            jobs.append(list(launch))
    return jobs


def _together(job: list[RankAccount], launch: list[RankAccount]) -> bool:
    sizes: dict[str, set[int]] = {}
    for each in (*job, *launch):
        sizes.setdefault(each.role, set()).add(each.world_size)
    apart = max(each.ended_ns for each in launch) + clock.MACHINES_NS < min(each.started_ns for each in job)
    return not apart and not _ranks(job) & _ranks(launch) and all(len(known) == 1 for known in sizes.values())


def _ranks(accounts: list[RankAccount]) -> set[tuple[str, int, str]]:
    return {each.place for each in accounts}


def _remark(jobs: list[list[RankAccount]], own: list[RankAccount]) -> str:
    others = [job for job in jobs if job is not own]
    which = "the newest job" if own is jobs[0] else "the job that --job chooses"
    named = ", ".join(f"{_least(job)} ({_count(job)})" for job in others[:_NAMED])
    more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    place = os.path.dirname(own[0].directory.rstrip("/")) or "The directory"
    return (
        f"{place} has results of {len(jobs)} jobs. The figures are of {which} ({_count(own)}). "
        f"To choose another job, add --job with one of its results to the command summary, cluster or merge: "
        f"{named}{more}."
    )


def _count(job: list[RankAccount]) -> str:
    count = len(_ranks(job))
    return f"{count} rank{'s' * (count != 1)}"


def _least(accounts: list[RankAccount]) -> str:
    return min(_name(each.directory) for each in accounts)


def _name(path: str) -> str:
    return os.path.basename(path.rstrip("/"))
