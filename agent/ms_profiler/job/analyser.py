"""Start the analysis in a fresh interpreter: a child of multiprocessing would import the job's main module."""

import os
import sys

from ms_profiler import paths
from ms_profiler.job import apart
from ms_profiler.job.detached import Detached

#: Program for `python -c`. Its first argument, the package's directory, replaces the current directory in `sys.path`:
#: the job may have a file polars.py in the current directory.
_PROGRAM = "import sys; sys.path[0] = sys.argv.pop(1); from ms_profiler.cli import main; sys.exit(main())"


def command(*words: str) -> list[str]:
    """Return the command line of `ms-profiler` with these arguments."""
    return [sys.executable, "-c", _PROGRAM, _root(), *words]


def environment() -> dict[str, str]:
    """Return the job's environment without the variables that would make the analysis profile itself."""
    return {key: value for key, value in os.environ.items() if not key.startswith("MS_PROFILER_")}


def start(words: list[str], log: int) -> Detached:
    """Start `ms-profiler` with a pipe as its stdout; on success, `ms-profiler` writes one line into the pipe.

    Args:
        words: arguments of `ms-profiler`.
        log: the descriptor for its messages.
    """
    return apart.start_with_pipe(command(*words), environment(), log)


def detach(words: list[str], output: int) -> None:
    """Start `ms-profiler` as a process that outlives this one.

    Args:
        words: arguments of `ms-profiler`.
        output: the descriptor for its stdout and stderr.
    """
    apart.start(command(*words), environment(), output, output)


def _root() -> str:
    """Return the directory that holds the package."""
    return paths.dirname(paths.dirname(paths.dirname(paths.abspath(__file__))))
