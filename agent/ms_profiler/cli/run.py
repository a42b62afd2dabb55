"""`ms-profiler run COMMAND`: switch profiling on and become the command; if it records nothing, say why."""

import argparse
import json
import os
from collections.abc import MutableMapping, Sequence
from typing import Any

from ms_profiler import log, options
from ms_profiler.cli import watcher
from ms_profiler.errors import UsageError
from ms_profiler.job.origin import VARIABLE

NAME = "run"
HELP = "run a command with profiling on"

NOT_FOUND = 127  #: exit code of a shell if a command does not exist
NOT_EXECUTABLE = 126  #: exit code of a shell if a command may not be executed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--output-path", metavar="DIR", help="directory that receives the result")
    parser.add_argument(
        "--option",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="an option of MS_PROFILER_OPTIONS; may be repeated; VALUE is JSON or plain text",
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the command to run")


def run(args: argparse.Namespace) -> int:
    """Replace this process by the command, with profiling switched on; return only if the command does not exist.

    Raises:
        UsageError: there is no command, it cannot be executed, or an option is not KEY=VALUE.
    """
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError("No command to run.", "Write `ms-profiler run -- python train.py`.")
    set_options(os.environ, options_of(args))
    set_path(os.environ, site_directory())
    preload_tracing(os.environ)
    failed = watcher.stay(command, dict(os.environ))
    try:
        os.execvp(command[0], command)
    except OSError as reason:
        if failed >= 0:
            os.write(failed, b"x")
        missing = isinstance(reason, (FileNotFoundError, NotADirectoryError))
        error = UsageError(f"Cannot run {command[0]}: {reason.strerror}.", "Is its name right, and is it on PATH?")
        error.exit_code = NOT_FOUND if missing else NOT_EXECUTABLE
        raise error from None


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the profiler's options that the arguments of `ms-profiler run` set, by name.

    Raises:
        UsageError: an argument is not KEY=VALUE.
    """
    chosen: dict[str, Any] = {}
    for text in args.option:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UsageError(f"--option takes KEY=VALUE, not {text!r}.", "`ms-profiler options` lists the keys.")
        chosen[key] = _value(value)
    if args.output_path is not None:
        chosen["output_path"] = args.output_path
    return chosen


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def set_options(environ: MutableMapping[str, str], chosen: dict[str, Any]) -> None:
    """Switch profiling on in an environment, and add options to those that MS_PROFILER_OPTIONS already holds.

    Raises:
        UsageError: MS_PROFILER_OPTIONS holds no JSON object.
    """
    present = environ.get(VARIABLE) or "{}"
    base = _value(present)
    if not isinstance(base, dict):
        raise UsageError(f"{VARIABLE} is set, but holds no JSON object.", f"Correct it, or run `unset {VARIABLE}`.")
    environ[VARIABLE] = json.dumps({"start": True, **base, **chosen})


def preload_tracing(environ: MutableMapping[str, str]) -> None:
    """Let the command preload the library that traces an NPU, if the options need it.

    If the library is needed and cannot be preloaded, print a line.
    """
    chosen = options.parse(environ[VARIABLE]).options
    if chosen is None or not chosen.profile_memory:
        return
    from ms_profiler.job.devices import mspti, preload  # imported here, because few commands need it

    if why := preload.add(environ, chosen, mspti.PLACES.libraries()):
        log.line(why)


def set_path(environ: MutableMapping[str, str], directory: str) -> None:
    """Put a directory first on PYTHONPATH, and remove it elsewhere, so that nested calls leave only one entry."""
    present = environ.get("PYTHONPATH", "")
    others: Sequence[str] = [entry for entry in present.split(os.pathsep) if entry != directory] if present else []
    environ["PYTHONPATH"] = os.pathsep.join([directory, *others])


def site_directory() -> str:
    """Return the directory of `sitecustomize.py`, which activates ms-profiler, in the installed package or checkout."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    installed = os.path.join(package, "_site")
    checkout = os.path.join(os.path.dirname(os.path.dirname(package)), "sitecustomize")
    return installed if os.path.isdir(installed) else checkout
