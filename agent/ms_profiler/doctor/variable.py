"""Examine MS_PROFILER_OPTIONS in an environment: its value, the rank that it selects, and the output directory."""

import json
import os
from collections.abc import Mapping

from ms_profiler import options
from ms_profiler.doctor.finding import Finding, cause, note, ok
from ms_profiler.job import process
from ms_profiler.job.origin import VARIABLE

EXAMPLE = f"""export {VARIABLE}='{{"start": true, "output_path": "./data"}}'"""


def examine(environ: Mapping[str, str], directory: str) -> list[Finding]:
    """Return findings about MS_PROFILER_OPTIONS in an environment.

    Args:
        environ: the environment in which the job starts.
        directory: the directory in which the job starts; a relative output path is relative to it.
    """
    value = environ.get(VARIABLE)
    if not value:
        text = "is empty" if value == "" else "is not set"
        return [cause("variable", f"{VARIABLE} {text}.", f"Before the job starts: {EXAMPLE}")]
    parsed = options.parse(value)
    chosen = parsed.options
    if chosen is None:
        why = parsed.messages[0].rstrip(".") if parsed.messages else f"{VARIABLE} does not switch profiling on"
        remedy = 'Add "start": true to the object.' if _is_object(value) else f"Set it like this: {EXAMPLE}"
        return [cause("variable", f"{why}.", remedy)]
    found = [note("variable", message, "`ms-profiler options` lists every option.") for message in parsed.messages]
    found.append(ok("variable", f"{VARIABLE} is set and switches profiling on."))
    return [*found, *_rank(environ, chosen), *_output(chosen, directory), *_when(chosen)]


def _is_object(value: str) -> bool:
    try:
        return isinstance(json.loads(value), dict)
    except (ValueError, RecursionError):
        return False


def _rank(environ: Mapping[str, str], chosen: options.Options) -> list[Finding]:
    identity = process.identity(environ)
    if identity.selected(chosen.ranks):
        return []
    text = f"`ranks` is {chosen.ranks!r}, which leaves out rank {identity.rank} of {identity.world_size}."
    return [cause("rank", text, "Name this rank in `ranks`, or leave the option out.")]


def _output(chosen: options.Options, directory: str) -> list[Finding]:
    path = os.path.abspath(os.path.join(directory, os.path.expanduser(chosen.output_path)))
    if os.path.islink(path):
        text = f"output_path {path} is a symbolic link, which is refused; results go to the temporary directory."
        return [note("output", text, "Name the directory itself.")]
    existing = path
    while not os.path.exists(existing):
        existing = os.path.dirname(existing)
    if os.path.isdir(existing) and os.access(existing, os.W_OK | os.X_OK):
        return [ok("output", f"Results go to {path}.")]
    text = f"Nothing can be written to output_path {path}; results go to the temporary directory."
    return [note("output", text, "Name a directory that the job may write to.")]


def _when(chosen: options.Options) -> list[Finding]:
    if chosen.dynamic is not None:
        text = f"Nothing is recorded until the file {chosen.dynamic} names steps (option `dynamic`)."
        return [note("schedule", text, 'Write {"start_step": 1, "stop_step": 10} into it, or leave the option out.')]
    if chosen.schedule is not None:
        return [note("schedule", "Only the steps of `schedule` are recorded; a shorter job leaves no step.")]
    return []
