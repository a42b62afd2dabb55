"""The function `analyse`, as in MindSpore's public profiler documents: it analyses results when the job has ended."""

import os
import subprocess
from collections.abc import Iterable, Sequence

from ms_profiler import log, options
from ms_profiler.api.arguments import truth
from ms_profiler.errors import AnalysisError, MsProfilerError, UsageError
from ms_profiler.job import analyser, collection, origin


def analyse(
    profiler_path: str,
    max_process_number: int | None = None,
    pretty: bool = False,
    step_list: Sequence[int] | None = None,
    data_simplification: bool = True,
) -> None:
    """Analyse results in a new interpreter, and wait until it ends.

    Args:
        profiler_path: a result directory, whose name ends with `_ascend_ms`, or a directory that contains such ones.
        max_process_number: largest number of processes of the analysis; by default half the number of CPUs.
        pretty: whether to indent JSON files.
        step_list: the numbers of the steps to analyse, which must be consecutive; by default all.
        data_simplification: whether to remove intermediate files afterwards.

    Raises:
        UsageError: a parameter has a wrong value.
        MsProfilerError: the analysis failed; its messages are on stderr.
    """
    run(profiler_path, max_process_number, pretty, step_list, data_simplification)


def run(
    profiler_path: str,
    max_process_number: int | None = None,
    pretty: bool = False,
    step_list: Sequence[int] | None = None,
    data_simplification: bool = True,
    wait: bool = True,
    quiet: bool = False,
) -> None:
    """Analyse results as `analyse` does.

    Args:
        profiler_path: as for `analyse`, and so are the following parameters.
        max_process_number: see there.
        pretty: see there.
        step_list: see there.
        data_simplification: see there.
        wait: whether to wait for the analysis. If not, it goes on when this process ends.
        quiet: whether to leave out the line about each result.

    Raises:
        UsageError: a parameter has a wrong value.
        MsProfilerError: the analysis failed; its messages are on stderr.
    """
    path = _path(profiler_path)
    words = ["analyse", "--in-script", path]
    check_processes(max_process_number)
    if max_process_number is not None:
        words += ["--max-process-number", str(max_process_number)]
    if step_list is not None:
        words += ["--step-list", ",".join(map(str, _consecutive(step_list)))]
    if truth("pretty", pretty, False):
        words.append("--pretty")
    simplified = truth("data_simplification", data_simplification, True)
    words += ["--data-simplification", "true" if simplified else "false"]
    # stdout belongs to the script, so the analysis must not print to it
    if not wait:
        with open(os.devnull, "wb") as nowhere:
            analyser.detach(words, nowhere.fileno())
        return
    shown = 2 if log.is_open() else subprocess.DEVNULL  # not if the script has put another file in place of stderr
    with collection.requested():
        done = subprocess.run(
            analyser.command(*words),
            env=analyser.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if quiet or _is_quiet() else shown,
            stderr=shown,
            check=False,
        )
    if done.returncode != 0:
        failed = f"The analysis of {path} failed with exit code {done.returncode}."
        if shown != 2:
            raise MsProfilerError(failed, f"Run `ms-profiler analyse {path}` to see why.")
        raise (AnalysisError if done.returncode == AnalysisError.exit_code else MsProfilerError)(failed)


def check_processes(number: object) -> None:
    """Check the argument `max_process_number`.

    Raises:
        UsageError: the argument is neither None nor a whole number of 1 or more.
    """
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
        raise UsageError(f"max_process_number is {number!r}.", "It must be 1 or more.")


def _path(path: object) -> str:
    if isinstance(path, (str, bytes, os.PathLike)) and (text := os.fsdecode(path)) and "\0" not in text:
        return text
    raise UsageError(f"profiler_path is {path!r}.", "Pass the path of a result, or of a directory that holds results.")


def _is_quiet() -> bool:
    """Return whether MS_PROFILER_OPTIONS asks for no lines at the end of a recording."""
    chosen = options.parse(os.environ.get(origin.VARIABLE)).options
    return chosen is not None and chosen.quiet


def _consecutive(steps: object) -> list[int]:
    if not isinstance(steps, Iterable):
        raise UsageError(f"step_list is {steps!r}.", "It must be a list of numbers of steps.")
    chosen = list(steps)
    if not chosen or any(isinstance(step, bool) or not isinstance(step, int) or step < 0 for step in chosen):
        raise UsageError(f"step_list is {chosen!r}.", "It must hold numbers of steps.")
    chosen.sort()
    if chosen != list(range(chosen[0], chosen[0] + len(chosen))):
        raise UsageError(f"step_list is {chosen!r}.", "Its numbers must follow each other.")
    return chosen
