"""The command line: `ms-profiler COMMAND ...`, one module per command.

A command module has `NAME`, `HELP`, `add_arguments(parser)` and `run(args) -> exit code`. It is imported only when the
command is used, because users wait for the analysis at the end of a job.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Protocol, cast

from ms_profiler.errors import MsProfilerError

COMMANDS = {
    "run": "ms_profiler.cli.run",
    "options": "ms_profiler.cli.options",
    "analyse": "ms_profiler.cli.analyse",
    "summary": "ms_profiler.cli.summary",
    "cluster": "ms_profiler.cli.cluster",
    "merge": "ms_profiler.cli.merge",
    "collect": "ms_profiler.cli.collect",
    "compare": "ms_profiler.cli.compare",
    "gate": "ms_profiler.cli.gate",
    "history": "ms_profiler.cli.history",
    "report": "ms_profiler.cli.report",
    "view": "ms_profiler.cli.view",
    "sql": "ms_profiler.cli.sql",
    "tables": "ms_profiler.cli.tables",
    "doctor": "ms_profiler.cli.doctor",
}
ALIASES = {"analyze": "analyse"}

#: the exit code that a shell reports for a process that SIGINT ended
INTERRUPTED = 130


class Command(Protocol):
    """The interface of a command module."""

    NAME: str
    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Run the command and return the exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, print its error if there is one, and return its exit code.

    Args:
        argv: the arguments without the program's name; those of `sys.argv` by default.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        name = ALIASES.get(words[0], words[0]) if words else ""
        code = _run(name, words[1:]) if name in COMMANDS else _overview(words)
        sys.stdout.flush()
    except MsProfilerError as error:
        print(f"ms-profiler: {error}", file=sys.stderr)
        return error.exit_code
    except MemoryError:
        print("ms-profiler: The process ran out of memory. Raise its memory limit.", file=sys.stderr)
        return MsProfilerError.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has closed the pipe. Python would fail again at exit when it writes the rest of the buffer.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _run(name: str, words: list[str]) -> int:
    command = _load(name)
    parser = argparse.ArgumentParser(prog=f"ms-profiler {name}", description=command.HELP)
    command.add_arguments(parser)
    return command.run(parser.parse_args(words))


def _overview(words: list[str]) -> int:
    from ms_profiler import __version__

    parser = argparse.ArgumentParser(prog="ms-profiler", description="Profile training jobs without editing them.")
    parser.add_argument("--version", action="version", version=f"ms-profiler {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in COMMANDS:
        commands.add_parser(name, help=_load(name).HELP)
    parser.parse_args(words)
    return 0


def _load(name: str) -> Command:
    return cast(Command, importlib.import_module(COMMANDS[name]))
