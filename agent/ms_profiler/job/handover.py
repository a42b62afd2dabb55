"""The end of a run: hand the store to the analysis, in another interpreter, and say where the result is.

Several ranks of one launch on one host share one analysis, started by the last of them to end, so that a node with
eight ranks does not run eight analyses beside each other.
"""

import fcntl
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ms_profiler.job import process
from ms_profiler.log import PREFIX
from ms_profiler.store import layout, run_info

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

EXTRA = "pip install 'ms-profiler[analysis]'"
#: What the analysis needs that the job does not.
NEEDED = "polars"


def finish(session: "Session") -> None:
    """Analyse, or say what to run; called at exit by the process that owns the result directory."""
    result = session.result
    later = f"ms-profiler analyse {result}"
    mode = session.options.analyse
    if mode == "off":
        session.say(f"recorded to {result} ; to analyse: {later}")
        return
    if importlib.util.find_spec(NEEDED) is None:
        session.say(f"recorded to {result} ; to analyse: {EXTRA} && {later}")
        return
    if not sys.executable:
        session.say(f"recorded to {result} ; this interpreter does not know its own path, to analyse: {later}")
        return
    with _last_of_launch(session) as results:
        if not results:
            session.say(f"recorded to {result} ; analysed when the last rank ends, then: ms-profiler summary {result}")
        elif mode == "async":
            _start(session, results, detach=True)
            session.say(f"recorded to {result} ; analysed in the background, then: ms-profiler summary {result}")
        else:
            late = f"the analysis did not end within exit_timeout, {session.options.exit_timeout:g} s; run: {later}"
            failed = f"the analysis failed, see {_log_path(result)} ; to try again: {later}"
            session.recorder.exit_wait(
                _start(session, results), session.options.exit_timeout, _line(session, late), _line(session, failed)
            )


def _start(session: "Session", results: list[str], detach: bool = False) -> int:
    """Start the analysis of `results`, this session's own first; return its process id.

    Its one line goes where ours go, unless nobody is to see it. posix_spawn, because it stands in nobody's way:
    multiprocessing children would import the job's main module.
    """
    own = session.result
    log = _log(own)
    speaks = session.speaks and not detach and _is_open(2)
    command = [sys.executable, "-c", _PROGRAM, _root(), "analyse", "--announce", own]
    command += [result for result in results if result != own]
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, 2 if speaks else log, 1),
        (os.POSIX_SPAWN_DUP2, log, 2),
    ]
    try:
        return os.posix_spawn(sys.executable, command, _environment(), file_actions=actions, setsid=detach)
    finally:
        os.close(log)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _line(session: "Session", message: str) -> str:
    return f"{PREFIX}{message}\n" if session.speaks else ""


def _root() -> str:
    """Return the directory that holds the package."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


#: The current directory must not provide modules: a job with a file named polars.py beside it is not rare enough.
_PROGRAM = "import sys; sys.path[0] = sys.argv.pop(1); from ms_profiler.cli import main; sys.exit(main())"


def _environment() -> dict[str, str]:
    """Return the job's environment without what would make the analysis profile itself."""
    return {key: value for key, value in os.environ.items() if key not in (process.VARIABLE, process.PARENT_VARIABLE)}


def _log_path(result: str) -> str:
    return os.path.join(result, layout.LOGS, "analysis.log")


def _log(result: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(_log_path(result), flags, layout.FILE_MODE)


@contextmanager
def _last_of_launch(session: "Session") -> Iterator[list[str]]:
    """Yield the results to analyse: all of this launch on this host if this process ends last, else none."""
    if session.identity.world_size <= 1 or not session.info.job:
        yield [session.result]
        return
    parent = os.path.dirname(session.result)
    lock = os.path.join(parent, f".ms_profiler_{session.info.job}.lock")
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, layout.FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        done = os.path.join(session.result, layout.FRAMEWORK, "ended")
        os.close(os.open(done, os.O_WRONLY | os.O_CREAT, layout.FILE_MODE))
        results, running = _siblings(session, parent)
        if not running:
            os.unlink(lock)
    finally:
        os.close(descriptor)
    yield [] if running else results


def _siblings(session: "Session", parent: str) -> tuple[list[str], bool]:
    """Return the results of this launch on this host, and whether any of their jobs still runs."""
    results, running = [], False
    for name in sorted(os.listdir(parent)):
        result = os.path.join(parent, name)
        if not name.endswith(layout.SUFFIX) or not name.startswith(session.info.host):
            continue
        try:
            info = run_info.read_run(layout.run_info_path(result))
        except (OSError, ValueError):
            continue
        if info.job != session.info.job or info.host != session.info.host:
            continue
        results.append(result)
        ended = os.path.exists(os.path.join(result, layout.FRAMEWORK, "ended"))
        running = running or (not ended and process.is_alive(info.pid, info.process_start))
    return results, running
