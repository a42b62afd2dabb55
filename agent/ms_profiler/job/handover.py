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

from ms_profiler.job import analyser, process
from ms_profiler.job.recorder.base import Recorder
from ms_profiler.job.recording import Recording
from ms_profiler.log import PREFIX
from ms_profiler.store import layout, run_info

EXTRA = "pip install 'ms-profiler[analysis]'"
#: Part of `exit_timeout` that CANN's msprof may take of an analysis that is waited for.
MSPROF_SHARE = 0.6
#: What the analysis needs that the job does not.
NEEDED = "polars"


def finish(recording: Recording, recorder: Recorder) -> None:
    """Analyse, or say what to run; called at exit by the process that owns the result directory.

    Args:
        recording: the one that has just ended.
        recorder: keeps the process until the analysis has ended.
    """
    result = recording.result
    later, look = f"ms-profiler analyse {result}", f"ms-profiler summary {result}"
    mode = recording.options.analyse
    if mode == "off":
        recording.say(f"recorded to {result} ; to analyse: {later}")
        return
    if importlib.util.find_spec(NEEDED) is None:
        recording.say(f"recorded to {result} ; to analyse: {EXTRA} && {later}")
        return
    if not sys.executable:
        recording.say(f"recorded to {result} ; this interpreter does not know its own path, to analyse: {later}")
        return
    with _last_of_launch(recording) as results:
        if not results:
            recording.say(
                f"recorded to {result} ; analysed when the last rank ends, then: ms-profiler summary {result}"
            )
        elif mode == "async":
            _start(recording, results, detach=True)
            recording.say(f"recorded to {result} ; analysed in the background, then: {look}")
        else:
            late = f"the analysis did not end within exit_timeout, {recording.options.exit_timeout:g} s; run: {later}"
            failed = f"the analysis failed, see {_log_path(result)} ; to try again: {later}"
            recorder.exit_wait(
                _start(recording, results),
                recording.options.exit_timeout,
                _line(recording, late),
                _line(recording, failed),
            )


def during(recording: Recording) -> None:
    """Have a result analysed that ended while the job goes on, or leave it, as its option `analyse` says.

    Args:
        recording: the one that has just ended.
    """
    result, mode = recording.result, recording.options.analyse
    later, look = f"ms-profiler analyse {result}", f"ms-profiler summary {result}"
    if mode == "off" or not sys.executable or importlib.util.find_spec(NEEDED) is None:
        recording.say(f"recorded to {result} ; to analyse: {later}")
    elif mode == "async":
        _start(recording, [result], detach=True)
        recording.say(f"recorded to {result} ; analysed in the background, then: {look}")
    else:
        _, status = os.waitpid(_start(recording, [result]), 0)
        if status:
            recording.say(f"the analysis failed, see {_log_path(result)} ; to try again: {later}")


def _start(recording: Recording, results: list[str], detach: bool = False) -> int:
    """Start the analysis of `results`, this recording's own first; return its process id, 0 when detached.

    Its one line goes where ours go, unless nobody is to see it.
    """
    own = recording.result
    log = _log(own)
    speaks = recording.speaks and not detach and _is_open(2)
    words = ["analyse", "--announce", own, *(result for result in results if result != own)]
    if not detach:
        # what is killed at its end has nothing to show; what comes after msprof is done in the rest of the time
        words += ["--msprof-timeout", f"{recording.options.exit_timeout * MSPROF_SHARE / len(results):g}"]
    try:
        if not detach:
            return analyser.spawn(words, 2 if speaks else log, log)
        analyser.detach(words, log, log)
        return 0
    finally:
        os.close(log)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _line(recording: Recording, message: str) -> str:
    return f"{PREFIX}{message}\n" if recording.speaks else ""


def _log_path(result: str) -> str:
    return os.path.join(result, layout.LOGS, "analysis.log")


def _log(result: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(_log_path(result), flags, layout.FILE_MODE)


@contextmanager
def _last_of_launch(recording: Recording) -> Iterator[list[str]]:
    """Yield the results to analyse: all of this launch on this host if this process ends last, else none.

    A job that no launcher started may have become one: its children may be ranks with results of their own.
    """
    alone = recording.identity.world_size <= 1 and len(layout.process_dirs(recording.result)) <= 1
    if alone or not recording.info.job:
        yield [recording.result]
        return
    parent = os.path.dirname(recording.result)
    lock = os.path.join(parent, f".ms_profiler_{recording.info.job}.lock")
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, layout.FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        done = os.path.join(recording.result, layout.FRAMEWORK, "ended")
        os.close(os.open(done, os.O_WRONLY | os.O_CREAT, layout.FILE_MODE))
        results, running = _siblings(recording, parent)
        if not running:
            os.unlink(lock)
    finally:
        os.close(descriptor)
    yield [] if running else results


def _siblings(recording: Recording, parent: str) -> tuple[list[str], bool]:
    """Return the results of this launch on this host, and whether any of their jobs still runs."""
    results, running = [], False
    for name in sorted(os.listdir(parent)):
        result = os.path.join(parent, name)
        if not name.endswith(layout.SUFFIX) or not name.startswith(recording.info.host):
            continue
        try:
            info = run_info.read_run(layout.run_info_path(result))
        except (OSError, ValueError):
            continue
        if info.job != recording.info.job or info.host != recording.info.host:
            continue
        results.append(result)
        ended = os.path.exists(os.path.join(result, layout.FRAMEWORK, "ended"))
        running = running or (not ended and process.is_alive(info.pid, info.process_start))
    return results, running
