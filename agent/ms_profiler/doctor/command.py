"""Examine a command without running it: MS_PROFILER_OPTIONS, the interpreter, and the program that it names."""

import os
from collections.abc import Mapping, Sequence

from ms_profiler.doctor import interpreter, program, script, variable
from ms_profiler.doctor.finding import Finding, cause, note
from ms_profiler.errors import UsageError
from ms_profiler.job import helper


def examine(command: Sequence[str], environ: Mapping[str, str], directory: str) -> list[Finding]:
    """Return findings about everything that would prevent the recording of a command.

    Args:
        command: the words of the command.
        environ: the environment variables with which the command would start.
        directory: the directory in which the command would start.

    Raises:
        UsageError: `command` is empty.
    """
    if not command:
        raise UsageError("There is no command after `--`.", "Write `ms-profiler doctor -- python train.py`.")
    resolved, found = program.resolve(command, environ, directory)
    found = [*variable.examine(resolved.environ, directory), *found]
    if not resolved.python:
        return found
    found += interpreter.examine(resolved.python, resolved.flags, resolved.environ, directory)
    return [*found, *_program(resolved, directory)]


def _program(resolved: program.Program, directory: str) -> list[Finding]:
    """Return the findings about the program that the interpreter runs."""
    why = helper.is_tool(resolved.words) or helper.is_companion(resolved.words, resolved.environ)
    if why.startswith("the launcher"):
        return [note("command", f"{resolved.words[0]} starts {why}; its workers are recorded, each with a result.")]
    if why:
        return [cause("command", f"This command is not recorded: it is {why}.", "Give doctor the command that trains.")]
    how, what = helper.program(resolved.words)
    if not how and what not in ("", "-"):
        path = os.path.join(directory, what)
        return script.examine(os.path.join(path, "__main__.py") if os.path.isdir(path) else path)
    return []
