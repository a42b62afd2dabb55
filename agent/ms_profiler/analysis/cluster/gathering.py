"""Read the figures of a job's ranks (their accounts, `rank_account`). Damaged results are reported and skipped."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ms_profiler.analysis.cluster import (
    account_file,
    exchanged,
    expert_exchanges,
    parallel_groups,
    rank_account,
    storage,
    vendor_account,
    whole_job,
)
from ms_profiler.analysis.cluster.engines import Engine, Local, Lost, Task
from ms_profiler.analysis.cluster.rank_account import RankAccount
from ms_profiler.analysis.cluster.whole_job import WholeJob
from ms_profiler.analysis.driver import engine, inputs
from ms_profiler.errors import MsProfilerError, StoreError
from ms_profiler.store import layout

#: number of ranks that one task reads, if the ranks have a rank.json or small files of Ascend's tools
RANKS: Final = 16


@dataclass
class _Part:
    """The figures (accounts) of some ranks, and a sentence for each result that cannot be read."""

    accounts: list[RankAccount] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def gather(paths: Sequence[str], engine: Engine | None = None, wanted: str = "") -> WholeJob:
    """Return the job to which some results belong.

    Args:
        paths: the paths of results, from `storage.find`.
        engine: the engine that reads the results; by default this process reads them.
        wanted: the path of a result whose job is used; by default the newest job, as `separate_jobs.chosen` finds it.

    Raises:
        StoreError: none of the results can be read.
        UsageError: there is no result `wanted`.
    """
    tasks = [
        Task(f"{each[0]} and {len(each) - 1} more" if each[1:] else each[0], _reduced, each, long)
        for each, long in _shares(paths)
    ]
    part: _Part = (engine or Local(1)).reduced(tasks, _joined)
    if not part.accounts:
        raise StoreError(f"None of {len(paths)} results can be read: {(part.remarks or ['there is none.'])[0]}")
    return whole_job.collect(part.accounts, part.remarks, wanted)


def _shares(paths: Sequence[str]) -> list[tuple[list[str], bool]]:
    """Return the paths of results that each task reads, and whether the task takes long.

    If a rank has no file with its account, reading it takes long. So it gets a task of its own.
    """
    found: list[tuple[list[str], bool]] = []
    room = 0
    for path in paths:
        ours = not storage.remote(path) and inputs.kind(path) == inputs.Kind.STORE
        alone = os.path.isfile(path) or path.endswith((".json", ".gz"))
        if alone or (ours and not os.path.isfile(os.path.join(path, layout.RANK))):
            found.append(([path], True))
            room = 0
        elif room:
            found[-1][0].append(path)
            room -= 1
        else:
            found.append(([path], False))
            room = RANKS - 1
    return found


def _reduced(paths: list[str]) -> _Part:
    """Return the figures (accounts) of some ranks, with only those columns that the comparison of ranks needs."""
    found = _read_all(paths)
    for account in found.accounts:
        sharing = parallel_groups.of_kind(account.groups, account.purposes, parallel_groups.EXPERTS)
        account.sent = expert_exchanges.sent(account.exchanges, sharing)
        account.exchanges = exchanged.marked(account.exchanges)
    return found


def _joined(parts: list["_Part | Lost"]) -> _Part:
    found = _Part()
    for part in parts:
        if isinstance(part, Lost):
            found.remarks.append(f"{part.name}: {part.why}.")
        else:
            found.accounts += part.accounts
            found.remarks += part.remarks
    return found


def _read_all(paths: Sequence[str]) -> _Part:
    found = _Part()
    for path in paths:
        try:
            with storage.local(path) as place:
                found.accounts.append(replace(read(place), directory=path))
        except MsProfilerError as error:
            found.remarks.append(str(error.args[0]))
    return found


def accounts(paths: Sequence[str], remarks: list[str]) -> list[RankAccount]:
    """Return the account (the figures) of each rank in some results, with all exchanges.

    Args:
        paths: the paths of results, from `storage.find`.
        remarks: receives a sentence for each result that cannot be read.

    Raises:
        StoreError: none of the results can be read.
    """
    found = _read_all(paths)
    if not found.accounts:
        raise StoreError(f"None of {len(paths)} results can be read: {(found.remarks or ['there is none.'])[0]}")
    remarks += found.remarks
    return found.accounts


def read(path: str) -> RankAccount:
    """Return the account (the figures) of one rank. Read it from rank.json if the rank's analysis wrote this file.

    Without this file, the account is computed from the recording.

    Args:
        path: a path that `engine.find` returned.

    Raises:
        MsProfilerError: the result cannot be read.
    """
    if inputs.kind(path) == inputs.Kind.ASCEND:
        return _vendor(path)
    written = os.path.join(inputs.result(path), layout.RANK)
    if inputs.kind(path) == inputs.Kind.STORE and _fresh(written, layout.run_info_path(path)):
        try:
            return account_file.load(written, path)
        except (OSError, ValueError):
            pass  # the file is of another version or cut off, so the account is computed from the recording instead
    return rank_account.account(engine.measured(path))


def _vendor(path: str) -> RankAccount:
    """Return the account (figures) of a result on Ascend: from its small files, or its timeline if they do not suffice.

    The small files do not suffice if they contain no exchanges.
    """
    small: RankAccount | None = None
    try:
        small = vendor_account.account(path)
    except StoreError:
        pass
    if small is not None and not small.exchanges.is_empty():
        return small
    try:
        return rank_account.account(engine.measured(path))
    except StoreError:
        if small is None:
            raise
        return small


def _fresh(written: str, source: str) -> bool:
    try:
        return os.stat(written).st_mtime_ns >= os.stat(source).st_mtime_ns
    except OSError:
        return False
