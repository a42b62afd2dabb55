"""Find out whether a recorded process still runs.

The process id alone does not identify a process, because the system may reuse it for another process. So a process is
identified by its id, its start in clock ticks since boot, and the boot id.
"""

import posix
from _io import open
from typing import NamedTuple


class _Stat(NamedTuple):
    state: str
    parent: int
    start: int
    status: int  # the status of an ended process, as from `wait()`; for processes of other users, the kernel shows 0


def _stat(pid: int) -> _Stat:
    """Return fields 3, 4, 22 and 52 of /proc/PID/stat, see proc_pid_stat(5): state, parent, start and exit status.

    If there is no such process, the state is an empty text and the numbers are 0.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            # field 2 is the name of the program, which may contain spaces and brackets
            values = stream.read().rpartition(b")")[2].split()
        return _Stat(values[0].decode(), int(values[1]), int(values[19]), int(values[49]))
    except (OSError, ValueError, IndexError):
        return _Stat("", 0, 0, 0)


def process_start(pid: int | None = None) -> int:
    """Return the start of a process, in clock ticks since boot; 0 if there is no such process.

    Args:
        pid: the process id; by default that of this process.
    """
    return _stat(posix.getpid() if pid is None else pid).start


def parent_of(pid: int) -> int:
    """Return the process id of the parent of a process; 0 if there is no such process.

    Args:
        pid: the process id.
    """
    return _stat(pid).parent


def is_alive(pid: int, started: int) -> bool:
    """Return whether the process with this id and start time runs; a zombie counts as ended."""
    found = _stat(pid)
    return found.start == started != 0 and found.state not in "ZX"


def wait_status(pid: int) -> int | None:
    """Return the status of a process that has ended and for which its parent has not called `wait()` yet.

    The status has the form that `wait()` returns. The result is None if the process runs, or if its parent has called
    `wait()` for it.

    Args:
        pid: the process id.
    """
    found = _stat(pid)
    return found.status if found.state == "Z" else None


def is_child(pid: int) -> bool:
    """Return whether a process runs and is a child of the calling process."""
    found = _stat(pid)
    return found.parent == posix.getpid() and found.state not in "ZX"


def boot_id() -> str:
    """Return the boot id of this host; empty if the kernel has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            return stream.read().strip()
    except OSError:
        return ""
