"""Examine the results of a job: whether the job recorded, how it ended, its hooks, and missing data."""

import os
from contextlib import suppress

from ms_profiler import options
from ms_profiler.doctor import variable
from ms_profiler.doctor.finding import Finding, State, cause, note, ok
from ms_profiler.errors import UsageError
from ms_profiler.job.origin import VARIABLE
from ms_profiler.store import alive, layout, run_info

#: number of lines of the log of the analysis that a finding shows
_LINES = 3


def examine(directory: str) -> list[Finding]:
    """Return findings about the results in a directory.

    Args:
        directory: a result directory, or a directory that contains such directories.

    Raises:
        UsageError: there is no such directory.
    """
    if not os.path.isdir(directory):
        raise UsageError(f"There is no directory {directory}.", "Name a result, or the `output_path` of the job.")
    results = [directory] if _is_result(directory) else _below(directory)
    if not results:
        return absent(directory)
    return [finding for result in results for finding in _examine(result)]


def absent(directory: str) -> list[Finding]:
    """Return the likely reasons why a directory holds no result.

    Args:
        directory: the directory, which may not exist.

    Returns:
        Findings; an empty list if the directory holds results.
    """
    if os.path.isdir(directory) and (_is_result(directory) or _below(directory)):
        return []
    if elsewhere := _deeper(directory):
        text = f"{directory} holds no result itself, but {elsewhere[0]} does."
        return [cause("result", text, f"Name {' or '.join(elsewhere)}.")]
    what = "holds no result" if os.path.isdir(directory) else "does not exist"
    remedy = "Run `ms-profiler doctor -- COMMAND` with the job's command, in the environment that it starts in."
    found = [cause("result", f"{directory} {what}: no process recorded into it.", remedy)]
    chosen = options.parse(os.environ.get(VARIABLE)).options
    if chosen is None:
        found += [finding for finding in variable.examine(os.environ, os.getcwd()) if finding.state == State.CAUSE]
    elif (place := os.path.abspath(os.path.expanduser(chosen.output_path))) != os.path.abspath(directory):
        found.append(note("output", f"{VARIABLE} of this shell sends results to {place}.", f"Look into {place}."))
    return found


def _is_result(path: str) -> bool:
    return os.path.exists(layout.run_info_path(path))


def _below(directory: str) -> list[str]:
    paths = (os.path.join(directory, name) for name in sorted(os.listdir(directory)))
    return [path for path in paths if _is_result(path)]


def _deeper(directory: str) -> list[str]:
    """Return the directories in a directory that contain results; the user may have meant one of them."""
    if not os.path.isdir(directory):
        return []
    paths = [os.path.join(directory, name) for name in sorted(os.listdir(directory))]
    return [path for path in paths if os.path.isdir(path) and os.access(path, os.R_OK) and _below(path)]


def _examine(result: str) -> list[Finding]:
    name = os.path.basename(os.path.abspath(result))
    try:
        info = run_info.read_run(layout.run_info_path(result))
    except (OSError, ValueError) as reason:
        text = f"{name}: the run's record cannot be read ({reason})."
        return [cause(name, text, f"ms-profiler analyse {result} uses the rest.")]
    found = [note(name, message) for message in info.messages]
    found += _processes(result, name)
    missed = {target: state for target, state in info.hooks.items() if state != "applied"}
    if info.hooks:
        found.append(ok(name, f"{len(info.hooks) - len(missed)} of {len(info.hooks)} hooks were applied."))
    found += [note(name, f"The hook of {target} is {state}.") for target, state in missed.items()]
    for activity, source in info.device_sources.items():
        found.append(ok(name, f"{activity} records come from {source.get('interface')}: {source.get('why')}."))
    found += [note(name, f"Not collected: {entry['what']}: {entry['why']}.") for entry in info.not_collected]
    return [*found, *_analysis(result, name)]


def _processes(result: str, name: str) -> list[Finding]:
    found, records = [], []
    for folder in layout.process_dirs(result):
        with suppress(OSError, ValueError):
            records.append(run_info.read_process(os.path.join(folder, layout.PROCESS_INFO)))
    daemons = {pid for record in records for pid in record.daemons}
    for record in records:
        who = f"process {record.pid} ({record.name})"
        if record.recorder_reason:
            text = f"{who} used the slower recorder in Python: {record.recorder_reason}."
            found.append(note(name, text, "Install the wheel for this machine and Python."))
        if record.state == "running" and alive.is_alive(record.pid, record.process_start):
            found.append(ok(name, f"{who} runs."))
        elif record.state == "running" and record.pid in daemons:
            found.append(ok(name, f"{who} was ended by its parent when the parent exited."))
        elif record.state == "running":
            found.append(note(name, f"{who} was killed or vanished; the store has its records."))
        elif record.records:
            found.append(ok(name, f"{who} ended ({record.end}) with {record.records} records."))
        else:
            text = f"{who} ended ({record.end}) without a record."
            found.append(cause(name, text, "Did it train? `ms-profiler doctor -- COMMAND` looks at its start."))
        if record.dropped_limit:
            text = f"{who} dropped {record.dropped_limit} records at the limit max_disk."
            found.append(note(name, text, "Raise max_disk, or free some space."))
        if record.dropped:
            text = f"{who} lost {record.dropped} records: the disk was full, or max_memory was reached."
            found.append(note(name, text, "Free some space, or raise max_memory. The summary names the reason."))
    if not found:
        text = "No process recorded: the job ended before its framework was imported, or while it was."
        return [cause(name, text, "Run the job again to its end.")]
    return found


def _analysis(result: str, name: str) -> list[Finding]:
    if os.path.exists(os.path.join(result, layout.SUMMARY)):
        return [ok(name, "It is analysed.")]
    log = os.path.join(result, layout.LOGS, "analysis.log")
    try:
        with open(log, encoding="utf-8", errors="replace") as stream:
            lines = stream.read().strip().splitlines()
    except OSError:
        lines = []
    said = f" Its log ends: {' / '.join(lines[-_LINES:])}" if lines else ""
    return [note(name, f"It is not analysed.{said}", f"ms-profiler analyse {result}")]
