"""Find out how a recorded process ended, or whether it still runs."""

import os
import socket

from ms_profiler.store.run_info import ProcessInfo, RunInfo

RUNNING = "running"
VANISHED = "killed or vanished"
#: a worker that lived until the process which started it exited
BY_PARENT = "ended by its parent"
UNKNOWN = "unknown"
STOPPED = "stopped"

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def state_of(process: ProcessInfo, run: RunInfo) -> str:
    """Return how `process` ended: "exit", "exception: NAME", "stopped" (the profiler, not the process),
    "killed or vanished", "running" or "unknown"; what its parent did about it, `settled` says.

    A process that never wrote its end is looked for: the same pid, started at the same clock tick of the same boot.
    It is "unknown" only when this is another host than it ran on, so that nothing can be said.

    Args:
        process: its own record.
        run: the record of the run, for the host and the boot.
    """
    if process.state == "ended":
        return process.end or "exit"
    if process.pid and _start_of(process.pid) == process.process_start and _boot_id() == run.boot_id:
        return RUNNING
    return VANISHED if run.host in ("", socket.gethostname()) else UNKNOWN


def settled(state: str, ended: bool) -> str:
    """Return the state of a process whose parent may have ended it.

    Args:
        state: of `state_of`.
        ended: it lived when its parent exited, which ends it: `multiprocessing` sends its daemons SIGTERM.
    """
    return BY_PARENT if ended and state in (VANISHED, RUNNING) else state


def _start_of(pid: int) -> int | None:
    """Return field 22 of /proc/PID/stat, the start in clock ticks since boot; None for a zombie or no process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            # the command's name stands in parentheses and may hold spaces and parentheses itself
            fields = stream.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _boot_id() -> str:
    try:
        with open(_BOOT_ID, encoding="ascii") as stream:
            return stream.read().strip()
    except OSError:
        return f"none known to process {os.getpid()}"
