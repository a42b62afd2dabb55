"""`analyse`, as in MindSpore's public profiler documents: analyse after the job, or after it was killed."""

import os
import subprocess
import sys
from collections.abc import Sequence

from ms_profiler.errors import MsProfilerError, UsageError

#: The first directory of the path, the script's or the current one, must not provide modules to the analysis.
_PROGRAM = "import sys; sys.path[0] = sys.argv.pop(1); from ms_profiler.cli import main; sys.exit(main())"


def analyse(
    profiler_path: str,
    max_process_number: int | None = None,
    pretty: bool = False,
    step_list: Sequence[int] | None = None,
    data_simplification: bool = True,
) -> None:
    """Analyse what was recorded, in an interpreter of its own, and wait for it.

    Args:
        profiler_path: a directory that ends with `_ascend_ms`, or one that holds such directories.
        max_process_number: processes at most; by default half the CPUs.
        pretty: indent JSON files.
        step_list: the steps to analyse, consecutive numbers; by default all.
        data_simplification: remove intermediate files afterwards.

    Raises:
        UsageError: a parameter has a wrong value.
        MsProfilerError: the analysis failed; what it said is on stderr.
    """
    command = [sys.executable, "-c", _PROGRAM, _root(), "analyse", os.fspath(profiler_path)]
    if max_process_number is not None:
        if isinstance(max_process_number, bool) or not isinstance(max_process_number, int) or max_process_number < 1:
            raise UsageError(f"max_process_number is {max_process_number!r}.", "It must be 1 or more.")
        command += ["--max-process-number", str(max_process_number)]
    if step_list is not None:
        command += ["--step-list", ",".join(map(str, _consecutive(step_list)))]
    if pretty:
        command.append("--pretty")
    command += ["--data-simplification", "true" if data_simplification else "false"]
    done = subprocess.run(command, env=_environment(), stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise MsProfilerError(f"The analysis of {profiler_path} failed with exit code {done.returncode}.")


def _consecutive(steps: Sequence[int]) -> list[int]:
    chosen = list(steps)
    if not chosen or any(isinstance(step, bool) or not isinstance(step, int) or step < 0 for step in chosen):
        raise UsageError(f"step_list is {chosen!r}.", "It must hold numbers of steps.")
    chosen.sort()
    if chosen != list(range(chosen[0], chosen[0] + len(chosen))):
        raise UsageError(f"step_list is {chosen!r}.", "Its numbers must follow each other.")
    return chosen


def _root() -> str:
    """Return the directory that holds the package."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _environment() -> dict[str, str]:
    """Return the environment without what would make the analysis profile itself."""
    return {key: value for key, value in os.environ.items() if not key.startswith("MS_PROFILER_")}
