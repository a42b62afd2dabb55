"""Find the profiled process that started this one through multiprocessing, and its result directory.

The parent maps a file of its result directory into memory. This process reads the path of that file from the parent's
/proc/PID/maps. Other ways have disadvantages. An environment variable would be visible to the job and its programs. A
file outside of the result would stay after a kill. And the job may close an inherited descriptor.
"""

import os
import posix
import sys
from _io import open
from collections.abc import Mapping
from typing import NamedTuple

from ms_profiler import paths
from ms_profiler.job import process
from ms_profiler.job.recorder import mapping
from ms_profiler.store import alive, layout, run_info

#: A source file of this package. A process that records only on demand has no result, and maps this file to say so.
_WATCHES = paths.join("ms_profiler", "job", "control", "dynamic.py")

_announced: "mapping.Mapping | None" = None


class Parent(NamedTuple):
    """The profiled process that started this one through multiprocessing.

    Attributes:
        directory: result directory of that process. Empty if the process records only on demand; then its children
            record nothing.
        rank: rank of that process.
        job: name of the launch that started that process's job; all its ranks on a host have this name.
        forks: whether a fork server made this process, which then ends without Python's exit functions.
    """

    directory: str
    rank: int
    job: str
    forks: bool = False


def announce(directory: str) -> None:
    """Map a file of the result directory, so that the children of this process find the directory.

    If no file can be mapped, the children make separate results.

    Args:
        directory: the result directory; empty while there is none.
    """
    global _announced
    if directory:
        path = paths.join(layout.process_dir(directory, posix.getpid()), layout.ANNOUNCED)
        flags = posix.O_RDONLY | posix.O_CREAT
    else:
        package = paths.dirname(paths.dirname(paths.dirname(paths.abspath(__file__))))
        path, flags = paths.join(package, _WATCHES), posix.O_RDONLY
    try:
        descriptor = posix.open(path, flags | posix.O_CLOEXEC, layout.FILE_MODE)
        try:
            _announced = mapping.Mapping(descriptor, 1, writable=False)
        finally:
            posix.close(descriptor)
    except OSError:
        pass


def find(environ: Mapping[str, str]) -> Parent | None:
    """Return the profiled process whose result this process shares; None if this process is a separate job.

    This process shares the result of a living process that started it through multiprocessing, directly or by a fork
    server. But if a launcher gave this process another rank than that process, this process is a separate job. A
    program that the job starts without multiprocessing is a separate job, too.
    """
    forks = "--multiprocessing-fork" not in sys.orig_argv
    if not forks:
        pid = posix.getppid()
    elif _is_fork_server(posix.getppid()):
        pid = alive.parent_of(posix.getppid())
    else:
        return None
    directory = _directory(pid)
    if not directory:
        return None if directory is None else Parent("", 0, "", forks)
    try:
        info = run_info.read_run(layout.run_info_path(directory))
    except (OSError, ValueError):
        return None
    own = process.identity(environ)
    return None if own.ranked and own.rank != info.rank else Parent(directory, info.rank, info.job, forks)


def _directory(pid: int) -> str | None:
    """Return the result directory that a process has announced.

    Return "" if the process has announced that it has no result, and None if the process has announced nothing.
    """
    own = f"/{layout.ANNOUNCED}"
    folder = layout.process_dir("", pid)
    try:
        with open(f"/proc/{pid}/maps", "rb") as stream:
            for line in stream:
                # address, rights, offset, device, inode, path
                fields = os.fsdecode(line).rstrip("\n").split(None, 5)
                path = fields[5].removesuffix(" (deleted)").replace("\\012", "\n") if len(fields) == 6 else ""
                if path.endswith(f"/{folder}{own}"):
                    return path.removesuffix(f"/{folder}{own}")
                if path.endswith(f"/{_WATCHES}"):
                    return ""
    except OSError:
        pass  # the parent has ended, or belongs to another user
    return None


def _is_fork_server(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            return b".forkserver import main" in stream.read()
    except OSError:
        return False
