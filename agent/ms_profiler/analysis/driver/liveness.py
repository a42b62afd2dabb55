"""Find out how a recorded process ended, or whether it still runs."""

import os
import socket
import time

from ms_profiler.store import exit_status, layout, run_info
from ms_profiler.store.run_info import ProcessInfo, RunInfo

RUNNING = "running"
VANISHED = "killed or vanished"
#: a worker that lived until the process which started it exited
BY_PARENT = "ended by its parent"
UNKNOWN = "unknown"
STOPPED = "stopped"

EXIT = "exit"
#: seconds that a process may take to end after its records have: PyTorch takes 0.8 s to unload
PATIENCE = 1.0
_PAUSE = 0.01

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def state_of(process: ProcessInfo, run: RunInfo, folder: str) -> str:
    """Return how `process` ended: "exit", "exit code N", "exception: NAME", "stopped" (the profiler, not the process),
    "killed or vanished", "running" or "unknown"; what its parent did about it, `settled` says.

    A process that never wrote its end is looked for: the same pid, started at the same clock tick of the same boot.
    It is "unknown" only when this is another host than it ran on, so that nothing can be said.

    Args:
        process: its own record.
        run: the record of the run, for the host and the boot.
        folder: of the process in the store.
    """
    if process.state == "ended":
        status = exit_status.read(folder) if process.end in ("", EXIT) else None
        return with_code(status) if status else process.end or EXIT
    if process.pid and _start_of(process.pid) == process.process_start and _boot_id() == run.boot_id:
        return RUNNING
    return VANISHED if run.host in ("", socket.gethostname()) else UNKNOWN


def exit_codes(directory: str) -> dict[int, int]:
    """Return the exit codes of processes, but 0, by process id; waits a moment for those that still end.

    Args:
        directory: a result.
    """
    last, codes = time.monotonic() + PATIENCE, {}
    for folder in layout.process_dirs(directory):
        try:
            process = run_info.read_process(os.path.join(folder, layout.PROCESS_INFO))
        except (OSError, ValueError, TypeError):
            continue  # what reads the store has told it
        while process.end == EXIT and exit_status.read(folder) is None and time.monotonic() < last:
            if _start_of(process.pid) != process.process_start:
                break
            time.sleep(_PAUSE)
        status = exit_status.read(folder) if process.end == EXIT else None
        if status:
            codes[process.pid] = status
    return codes


def with_code(code: int) -> str:
    """Return the state of a process that ended with an exit code."""
    return f"{EXIT} code {code}"


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
