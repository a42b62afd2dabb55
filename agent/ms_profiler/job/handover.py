"""The end of a run: start the analysis of the records in another interpreter, and print the path of the result.

All ranks of one launch on one host share one analysis. The rank that ends last starts this analysis. So a node with
eight ranks does not run eight analyses at the same time.
"""

import importlib.util
import os
import posix
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ms_profiler import log, paths
from ms_profiler.job import analyser, apart, origin, process
from ms_profiler.job.detached import Detached
from ms_profiler.job.recorder.contract import Recorder
from ms_profiler.job.recording import Recording
from ms_profiler.log import PREFIX
from ms_profiler.store import alive, layout, run_info

EXTRA = "pip install 'ms-profiler[analysis]'"
#: While the job waits for the analysis, CANN's program msprof may run for at most this fraction of `exit_timeout`.
MSPROF_SHARE = 0.6
#: Bytes of records that the analysis reads in a second; an event of 32 bytes takes 1 us (`benchmarks/RESULTS.md`).
SPEED: Final = 30_000_000
#: A package that only the analysis needs.
NEEDED = "polars"


def finish(recording: Recording, recorder: Recorder) -> None:
    """Start the analysis, or print the command for it.

    The process that made the result directory calls this function when it exits.

    Args:
        recording: the recording that has just ended.
        recorder: its `exit_wait` delays the end of the process until the analysis has ended.

    Raises:
        OSError: the analysis cannot be started.
    """
    if not recording.reachable:
        return
    result = recording.result
    later, look = f"ms-profiler analyse {result}", f"ms-profiler summary {result}"
    mode = recording.options.analyse
    if mode == "off" and not recording.options.collect:
        recording.say(f"recorded to {result} ; to analyse: {later}")
        return
    if importlib.util.find_spec(NEEDED) is None:
        # the packages that analyse have no versions for a free-threaded Python
        where = ", in an environment whose Python has the GIL" if process.free_threaded() else ""
        recording.say(f"recorded to {result} ; to analyse{where}: {EXTRA} && {later}")
        return
    if not sys.executable:
        recording.say(f"recorded to {result} ; this interpreter does not know its own path, to analyse: {later}")
        return
    results = _last_of_launch(recording)
    if not results:
        recording.say(f"recorded to {result} ; the last rank to end starts the analysis ; to see the result: {look}")
    elif how := _unwaited(recording, results):
        _start_in_background(recording, results)
        recording.say(f"recorded to {result} ; {how} ; to see the result: {look}")
    else:
        if recording.speaks and log.has_reader():
            # if stderr is a pipe or socket, it is closed before the wait, so this is the last line that its reader gets
            recording.say(f"recorded to {result} ; being analysed ; to see the result: {look}")
        recorder.exit_wait(
            _start(recording, results),
            recording.options.exit_timeout,
            recording.speaks and log.is_open(),
            f"{PREFIX}{_late(recording, look)}\n",
            f"{PREFIX}{_failed(result, later)}\n",
        )


def during(recording: Recording) -> None:
    """Start the analysis of a recording that ended while the job continues, or print the command for it.

    Args:
        recording: the recording that has just ended.
    """
    if not recording.reachable:
        return
    result, mode = recording.result, recording.options.analyse
    later, look = f"ms-profiler analyse {result}", f"ms-profiler summary {result}"
    idle = mode == "off" and not recording.options.collect
    if idle or not sys.executable or importlib.util.find_spec(NEEDED) is None:
        recording.say(f"recorded to {result} ; to analyse: {later}")
    elif how := _unwaited(recording, [result]):
        _start_in_background(recording, [result])
        recording.say(f"recorded to {result} ; {how} ; to see the result: {look}")
    else:
        line = _start(recording, [result]).wait(recording.options.exit_timeout)
        if line is None:
            recording.say(_late(recording, look))
        elif not line:
            recording.say(_failed(result, later))
        elif recording.speaks:
            log.write(line)


def takes(results: list[str]) -> float:
    """Return an estimate, in seconds, of how long the analysis of results takes, from the number of recorded bytes.

    Args:
        results: the directories of the results.
    """
    return sum(layout.size_below(layout.framework_dir(result)) for result in results) / SPEED


def _unwaited(recording: Recording, results: list[str]) -> str:
    """Return the reason why the job does not wait for the analysis, for a message; empty if it waits."""
    if recording.options.analyse == "off":
        return f"copied to {recording.options.collect} in the background"
    if recording.options.analyse == "async":
        return "analysed in the background"
    limit = recording.options.exit_timeout
    if takes(results) > limit:
        return f"the analysis would take longer than exit_timeout ({limit:g} s), so it runs in the background"
    return ""


def _late(recording: Recording, look: str) -> str:
    limit = f"exit_timeout is {recording.options.exit_timeout:g} s"
    return f"the analysis takes longer ({limit}) and continues in the background ; to see the result: {look}"


def _failed(result: str, later: str) -> str:
    return f"the analysis failed, see {_log_path(result)} ; to try again: {later}"


def _start(recording: Recording, results: list[str]) -> Detached:
    """Start the analysis of `results`, with this recording's own result first; the caller waits for the analysis.

    CANN's program msprof may take only a part of `exit_timeout`. The rest is left for the records of ms-profiler.
    """
    share = recording.options.exit_timeout * MSPROF_SHARE / len(results)
    with _log(recording.result, recording.options.anonymize) as messages:
        return analyser.start([*_words(recording, results), "--msprof-timeout", f"{share:g}"], messages)


def _start_in_background(recording: Recording, results: list[str]) -> None:
    """Start the analysis of `results` as `_start` does; the job does not wait for the analysis."""
    with _log(recording.result, recording.options.anonymize) as messages:
        analyser.detach(_words(recording, results), messages)


def _words(recording: Recording, results: list[str]) -> list[str]:
    own, target = recording.result, _target(recording.options.collect)
    if recording.options.analyse == "off":
        return ["collect", *results, target]
    chosen = ["analyse", "--announce", own, *(result for result in results if result != own)]
    return [*chosen, "--collect", target] if target else chosen


def _target(place: str | None) -> str:
    """Return the absolute path or URL that receives a copy of the result; empty if no copy is requested."""
    if not place or "://" in place:
        return place or ""
    return paths.abspath(paths.join(origin.directory, paths.expanduser(place)))


def _log_path(result: str) -> str:
    return paths.join(result, layout.LOGS, "analysis.log")


@contextmanager
def _log(result: str, anonymous: bool) -> Iterator[int]:
    """Yield a descriptor of the file for the messages of the analysis."""
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_APPEND | posix.O_NOFOLLOW | posix.O_CLOEXEC
    path = os.devnull if anonymous else _log_path(result)  # messages have paths, which name the job
    descriptor = apart.above(posix.open(path, flags, layout.FILE_MODE))
    try:
        yield descriptor
    finally:
        posix.close(descriptor)


def _last_of_launch(recording: Recording) -> list[str]:
    """Return the results to analyse: all results of this launch on this host if this process ends last, else none.

    A job without a launcher counts as a launch, too, because its children may be ranks with their own results. Each
    rank first marks its own end, and then checks the marks of the other ranks. So the last rank to check finds that all
    ranks have ended. If several ranks find this, the rank that creates the file `analysed_N` starts the analysis. The
    file is created with O_EXCL, which works on every file system. flock does not work on every file system.
    """
    alone = recording.identity.world_size <= 1 and len(layout.process_dirs(recording.result)) <= 1
    if alone or not recording.info.job:
        return [recording.result]
    _touch(recording.result, "ended")
    results, running = _siblings(recording, paths.dirname(recording.result))
    if running or not results:
        return []
    try:
        # The file is `analysed_N` for N results. If the launcher restarts the ranks, N grows, and the new results are
        # analysed, too.
        _touch(results[0], f"analysed_{len(results)}", posix.O_EXCL)
    except FileExistsError:
        return []
    return results


def _touch(result: str, name: str, flags: int = 0) -> None:
    path = paths.join(result, layout.FRAMEWORK, name)
    posix.close(
        posix.open(path, posix.O_WRONLY | posix.O_CREAT | posix.O_NOFOLLOW | posix.O_CLOEXEC | flags, layout.FILE_MODE)
    )


def _siblings(recording: Recording, parent: str) -> tuple[list[str], bool]:
    """Return the results of this launch on this host, and whether any of their jobs still runs.

    A process may have several results: its script called the profiler, or the process replaced itself by exec.
    """
    results, ended, others = [], set[tuple[int, int]](), set[tuple[int, int]]()
    for name in sorted(posix.listdir(parent)):
        result = paths.join(parent, name)
        if not name.endswith(layout.SUFFIX) or not name.startswith(recording.info.host):
            continue
        try:
            info = run_info.read_run(layout.run_info_path(result))
        except (OSError, ValueError):
            continue
        if info.job != recording.info.job or info.host != recording.info.host:
            continue
        results.append(result)
        has_ended = paths.exists(paths.join(result, layout.FRAMEWORK, "ended"))
        (ended if has_ended else others).add((info.pid, info.process_start))
    return results, any(alive.is_alive(*process) for process in others - ended)
