"""The analysis, started in an interpreter of its own.

posix_spawn, because it stands in nobody's way: multiprocessing children would import the job's main module.
"""

import os
import sys

#: The first directory of the path must not provide modules: a job with a file named polars.py beside it is not rare.
_PROGRAM = "import sys; sys.path[0] = sys.argv.pop(1); from ms_profiler.cli import main; sys.exit(main())"
#: Runs a command that is nobody's child: a job that waits for any child of its own must not be told of ours.
_DETACH = 'exec "$@" &'
SHELL = "/bin/sh"


def command(*words: str) -> list[str]:
    """Return the command line of `ms-profiler` with these words."""
    return [sys.executable, "-c", _PROGRAM, _root(), *words]


def environment() -> dict[str, str]:
    """Return the job's environment without what would make the analysis profile itself."""
    return {key: value for key, value in os.environ.items() if not key.startswith("MS_PROFILER_")}


def spawn(words: list[str], output: int, errors: int) -> int:
    """Start `ms-profiler` with these words; return its process id.

    Args:
        words: its arguments.
        output: descriptor that its lines go to.
        errors: descriptor that its tracebacks go to.
    """
    return os.posix_spawn(sys.executable, command(*words), environment(), file_actions=_descriptors(output, errors))


def detach(words: list[str], output: int, errors: int) -> None:
    """Start `ms-profiler` with these words as a process that outlives this one and is not its child."""
    line = [SHELL, "-c", _DETACH, SHELL, *command(*words)]
    shell = os.posix_spawn(SHELL, line, environment(), file_actions=_descriptors(output, errors), setsid=True)
    os.waitpid(shell, 0)  # 1 ms: it starts the command and is gone


def _descriptors(output: int, errors: int) -> list[tuple[int, ...]]:
    return [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),  # type: ignore[list-item]
        (os.POSIX_SPAWN_DUP2, output, 1),
        (os.POSIX_SPAWN_DUP2, errors, 2),
    ]


def _root() -> str:
    """Return the directory that holds the package."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
