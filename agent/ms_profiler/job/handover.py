"""The end of a run: hand the store to the analysis, in another interpreter, and say where the result is.

Several ranks of one launch on one host share one analysis, started by the last of them to end, so that a node with
eight ranks does not run eight analyses beside each other.
"""

import fcntl
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from ms_profiler.job import process
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
            return  # another rank of this launch still runs: it will analyse ours too
        command = [sys.executable, "-c", _PROGRAM, _root(), "analyse", *results]
        if mode == "async":
            with _log(result) as output:
                subprocess.Popen(
                    command,
                    env=_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            session.say(f"recorded to {result} ; analysed in the background, then: ms-profiler summary {result}")
            return
        _wait(session, command, later)


def _wait(session: "Session", command: list[str], later: str) -> None:
    result = session.result
    timeout = session.options.exit_timeout
    with _log(result) as errors:
        child = subprocess.Popen(
            command, env=_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
        )
        try:
            output, _ = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            _stop(child)
            session.say(f"the analysis took more than exit_timeout ({timeout:g} s) and was stopped; run: {later}")
            return
        except KeyboardInterrupt:
            _stop(child)
            session.say(f"interrupted; recorded to {result} ; to analyse: {later}")
            return
    if child.returncode != 0:
        session.say(f"the analysis failed, see {_log_path(result)} ; recorded to {result} ; to try again: {later}")
        return
    verdict = output.decode("utf-8", "replace").strip().split("\n")[0]
    session.say(f"{verdict} More: ms-profiler summary {result}")


def _stop(child: "subprocess.Popen[bytes]") -> None:
    child.kill()
    child.communicate()


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


def _log(result: str) -> IO[bytes]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    return os.fdopen(os.open(_log_path(result), flags, layout.FILE_MODE), "ab")


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
