"""Find out how a recorded process ended, or whether it still runs."""

import os
import signal
import socket
import time

from ms_profiler.store import alive, anonymous, exit_status, layout, run_info
from ms_profiler.store.run_info import ProcessInfo, RunInfo

RUNNING = "running"
VANISHED = "killed or vanished"
#: prefix of the state of a process whose signal is known
KILLED = "killed by "
#: end of the state of a process that left by `os._exit`, whose code is known
ABRUPT = ", without Python's exit"
#: a worker that lived until the process which started it exited
BY_PARENT = "ended by its parent"
UNKNOWN = "unknown"
STOPPED = "stopped"

EXIT = "exit"
#: seconds that a process may take to end after its records have: PyTorch takes 0.8 s to unload
PATIENCE = 1.0
_PAUSE = 0.01


def state_of(process: ProcessInfo, run: RunInfo, folder: str) -> str:
    """Return the way in which `process` ended, without the effect of its parent, which `settled` adds.

    "exit", "exit code N", "exit code N, without Python's exit", "exception: NAME", "stopped" (the profiler, not the
    process), "killed by SIGNAL", "killed or vanished", "running" or "unknown".

    A process that never wrote its end is searched for: the same pid, started at the same clock tick of the same boot.
    Its state is "unknown" only on another host than the one that it ran on.

    Args:
        process: its own record.
        run: the record of the run, for the host and the boot.
        folder: the folder of the process in the store.
    """
    if process.state == "ended":
        status = exit_status.read(folder) if process.end in ("", EXIT) else None
        return with_code(status) if status else process.end or EXIT
    if alive.is_alive(process.pid, process.process_start) and run.boot_id in _told(alive.boot_id()):
        return RUNNING
    status = exit_status.read(folder)
    if status is not None:
        return f"{KILLED}{_signal(-status)}" if status < 0 else f"{with_code(status)}{ABRUPT}"
    return VANISHED if run.host in ("", *_told(socket.gethostname())) else UNKNOWN


def _told(name: str) -> set[str]:
    """Return how a result may call this host or its boot; empty where there is no name."""
    return {name, anonymous.word(name)} - {""}


def is_killed(state: str) -> bool:
    """Return whether a process ended without writing its end.

    Args:
        state: the result of `state_of`.
    """
    return state == VANISHED or state.startswith(KILLED) or state.endswith(ABRUPT)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def exit_codes(directory: str) -> dict[int, int]:
    """Return the exit codes other than 0 of processes, by process id; wait a moment for processes that are still
    ending.

    Args:
        directory: a result.
    """
    last, codes = time.monotonic() + PATIENCE, {}
    for folder in layout.process_dirs(directory):
        try:
            process = run_info.read_process(os.path.join(folder, layout.PROCESS_INFO))
        except (OSError, ValueError, TypeError):
            continue  # the reader of the store has it already
        status = _last_status(process, folder, last) if process.end == EXIT else None
        if status:
            codes[process.pid] = status
    return codes


def _last_status(process: ProcessInfo, folder: str, last: float) -> int | None:
    """Return the exit status of a process once it has written it or has ended, or at a time of the monotonic clock."""
    while True:
        runs = alive.is_alive(process.pid, process.process_start)
        status = exit_status.read(folder)
        if status is not None or not runs or time.monotonic() >= last:
            return status
        time.sleep(_PAUSE)


def with_code(code: int) -> str:
    """Return the state of a process that ended with an exit code."""
    return f"{EXIT} code {code}"


def settled(state: str, ended: bool) -> str:
    """Return the state of a process whose parent may have ended it.

    Args:
        state: the result of `state_of`.
        ended: it was alive when its parent exited and ended it: `multiprocessing` sends its daemons SIGTERM.
    """
    return BY_PARENT if ended and (state == RUNNING or is_killed(state)) else state
