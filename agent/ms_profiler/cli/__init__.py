"""The command line: `ms-profiler COMMAND ...`, with one module for each command.

The module of a command has `NAME`, `HELP`, `add_arguments(parser)` and `run(args) -> exit code`. Only the module of the
used command is imported. This keeps the start short: at the end of a job, users wait for the command `analyse`.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from typing import NoReturn, Protocol, cast

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


#: the exit code of `argparse` for arguments that it does not accept
REFUSED = 2


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line each, without the list of all arguments."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and where the arguments are listed; exit with the code `REFUSED`."""
        sentence = message + self._meant(message)
        point = "" if sentence.endswith(("?", ".")) else "."
        self.exit(REFUSED, f"{self.prog}: {sentence}{point} `{self.prog} --help` lists the arguments.\n")

    def _meant(self, message: str) -> str:
        """Return a clause with the option that an unknown option resembles; empty if there is none."""
        unknown = [word.partition("=")[0] for word in message.split() if word.startswith("--")]
        known = [option for option in self._option_string_actions if option.startswith("--")]
        return _near(unknown[0], known) if message.startswith("unrecognized") and unknown else ""


class Command(Protocol):
    """The interface that the module of each command has."""

    NAME: str
    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Run the command and return the exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command of `ms-profiler`, print its error if there is one, and return its exit code.

    Args:
        argv: the arguments without the program's name; by default those of `sys.argv`.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    code = 0
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
        # The reader of stdout has closed the pipe. At exit, Python writes the rest of its buffer, and would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _near(word: str, known: Iterable[str]) -> str:
    """Return a clause with the known word that a word resembles most; empty if it resembles none."""
    import difflib  # only for mistakes: at the end of a job, users wait for the command `analyse`

    return "".join(f"; do you mean {found}?" for found in difflib.get_close_matches(word, known, 1))


def _run(name: str, words: list[str]) -> int:
    command = _load(name)
    parser = Parser(prog=f"ms-profiler {name}", description=command.HELP)
    command.add_arguments(parser)
    return command.run(parser.parse_args(words))


def _overview(words: list[str]) -> int:
    from ms_profiler import __version__

    parser = Parser(prog="ms-profiler", description="Profile training jobs without editing them.")
    if words and not words[0].startswith("-"):
        parser.error(f"there is no command {words[0]}{_near(words[0], COMMANDS)}")
    parser.add_argument("--version", action="version", version=f"ms-profiler {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in COMMANDS:
        commands.add_parser(name, help=_load(name).HELP)
    parser.parse_args(words)
    return 0


def _load(name: str) -> Command:
    return cast(Command, importlib.import_module(COMMANDS[name]))
