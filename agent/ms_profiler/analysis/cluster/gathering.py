"""Read the accounts of the ranks of a job, one after the other; a damaged rank is reported, and ends nothing."""

import os
from collections.abc import Sequence

from ms_profiler.analysis.cluster import account_file, rank_account, vendor_account, whole_job
from ms_profiler.analysis.cluster.rank_account import RankAccount
from ms_profiler.analysis.cluster.whole_job import WholeJob
from ms_profiler.analysis.driver import engine, inputs
from ms_profiler.errors import MsProfilerError, StoreError
from ms_profiler.store import layout


def gather(paths: Sequence[str]) -> WholeJob:
    """Return the job that some results are of.

    Args:
        paths: of `engine.find`.

    Raises:
        StoreError: none of them can be read.
    """
    remarks: list[str] = []
    return whole_job.collect(accounts(paths, remarks), remarks)


def accounts(paths: Sequence[str], remarks: list[str]) -> list[RankAccount]:
    """Return the accounts of some results.

    Args:
        paths: of `engine.find`.
        remarks: receives what cannot be read.

    Raises:
        StoreError: none of them can be read.
    """
    found = []
    for path in paths:
        try:
            found.append(read(path))
        except MsProfilerError as error:
            remarks.append(str(error.args[0]))
    if not found:
        raise StoreError(f"None of {len(paths)} results can be read: {remarks[0] if remarks else 'there is none.'}")
    return found


def read(path: str) -> RankAccount:
    """Return the account of one rank: as its analysis wrote it, or of its recording.

    Args:
        path: of `engine.find`.

    Raises:
        MsProfilerError: it cannot be read.
    """
    if inputs.kind(path) == inputs.Kind.ASCEND:
        return _vendor(path)
    written = os.path.join(inputs.result(path), layout.RANK)
    if inputs.kind(path) == inputs.Kind.STORE and _fresh(written, layout.run_info_path(path)):
        try:
            return account_file.load(written, path)
        except (OSError, ValueError):
            pass  # of another version, or cut off: the recording has all of it
    return rank_account.account(engine.measured(path))


def _vendor(path: str) -> RankAccount:
    """Return the account of a result on Ascend: of its small files where they have exchanges, else of its timeline."""
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
