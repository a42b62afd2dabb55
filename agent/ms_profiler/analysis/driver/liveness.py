"""Find out how a recorded process ended, or whether it still runs."""

import os
import signal
import socket
import time

from ms_profiler.store import alive, anonymous, exit_status, layout, run_info
from ms_profiler.store.run_info import ProcessInfo, RunInfo

RUNNING = "running"
VANISHED = "killed or vanished"
#: prefix of the state of a process that a known signal ended; the signal follows
KILLED = "killed by "
#: suffix of the state of a process that ended by `os._exit` with a known exit code
ABRUPT = ", without Python's exit"
#: state of a worker process that its parent ended when the parent exited
BY_PARENT = "ended by its parent"
UNKNOWN = "unknown"
STOPPED = "stopped"

EXIT = "exit"
#: longest time between the end of a process's records and the end of the process, s: PyTorch takes 0.8 s to unload
PATIENCE = 1.0
_PAUSE = 0.01


def state_of(process: ProcessInfo, run: RunInfo, folder: str) -> str:
    """Return how a process ended, or that it runs. Only `settled` can tell whether the parent ended it.

    The result is "exit", "exit code N", "exit code N, without Python's exit", "exception: NAME", "stopped" (the
    profiler, not the process), "killed by SIGNAL", "killed or vanished", "running" or "unknown".

    If the process did not write its end, it may still run. Another process may have got its pid since. So a running
    process is the recorded one only if it started at the same clock tick of the same boot. The state is "unknown" if
    the process ran on another host.

    Args:
        process: the record of the process.
        run: the record of the run, for the host and the boot.
        folder: the folder of the process in the store.
    """
    if process.state == "ended":
        status = exit_status.read(folder) if process.end in ("", EXIT) else None
        return with_code(status) if status else process.end or EXIT
    if alive.is_alive(process.pid, process.process_start) and run.boot_id in _names_of(alive.boot_id()):
        return RUNNING
    status = exit_status.read(folder)
    if status is not None:
        return f"{KILLED}{_signal(-status)}" if status < 0 else f"{with_code(status)}{ABRUPT}"
    return VANISHED if run.host in ("", *_names_of(socket.gethostname())) else UNKNOWN


def _names_of(name: str) -> set[str]:
    """Return both forms of a host's or a boot's name: plain and anonymous. A result has one of them."""
    return {name, anonymous.word(name)} - {""}


def is_killed(state: str) -> bool:
    """Return whether a state means that the process ended without writing its end.

    Args:
        state: the state of the process, from `state_of`.
    """
    return state == VANISHED or state.startswith(KILLED) or state.endswith(ABRUPT)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def exit_codes(directory: str) -> dict[int, int]:
    """Return process id -> exit code for codes other than 0. Wait up to `PATIENCE` for processes that are ending.

    Args:
        directory: the directory of the result.
    """
    last, codes = time.monotonic() + PATIENCE, {}
    for folder in layout.process_dirs(directory):
        try:
            process = run_info.read_process(os.path.join(folder, layout.PROCESS_INFO))
        except (OSError, ValueError, TypeError):
            continue  # the reader of the store has reported this already
        status = _last_status(process, folder, last) if process.end == EXIT else None
        if status:
            codes[process.pid] = status
    return codes


def _last_status(process: ProcessInfo, folder: str, last: float) -> int | None:
    """Wait for the exit status of a process, and return it. Return None if there is none, or the time limit passes.

    Args:
        process: the record of the process.
        folder: the folder of the process in the store.
        last: the time limit, in seconds of the monotonic clock.
    """
    while True:
        runs = alive.is_alive(process.pid, process.process_start)
        status = exit_status.read(folder)
        if status is not None or not runs or time.monotonic() >= last:
            return status
        time.sleep(_PAUSE)


def with_code(code: int) -> str:
    """Return the text of the state of a process that ended with this exit code."""
    return f"{EXIT} code {code}"


def settled(state: str, ended: bool) -> str:
    """Change the state of a killed process if its parent ended it.

    Args:
        state: the state of the process, from `state_of`.
        ended: whether the process was a daemon that was alive when its parent exited. Then `multiprocessing` sends it
            SIGTERM.
    """
    return BY_PARENT if ended and (state == RUNNING or is_killed(state)) else state
