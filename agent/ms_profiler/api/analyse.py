"""The function `analyse`, as in MindSpore's public profiler documents: it analyses results when the job has ended."""

import os
import subprocess
from collections.abc import Sequence

from ms_profiler import log
from ms_profiler.errors import MsProfilerError, UsageError
from ms_profiler.job import analyser, collection


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
) -> None:
    """Analyse results as `analyse` does; if `wait` is false, in a process that goes on when this process ends.

    Raises:
        UsageError: a parameter has a wrong value.
        MsProfilerError: the analysis failed; its messages are on stderr.
    """
    words = ["analyse", os.fspath(profiler_path)]
    if max_process_number is not None:
        if isinstance(max_process_number, bool) or not isinstance(max_process_number, int) or max_process_number < 1:
            raise UsageError(f"max_process_number is {max_process_number!r}.", "It must be 1 or more.")
        words += ["--max-process-number", str(max_process_number)]
    if step_list is not None:
        words += ["--step-list", ",".join(map(str, _consecutive(step_list)))]
    if pretty:
        words.append("--pretty")
    words += ["--data-simplification", "true" if data_simplification else "false"]
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
            stdout=shown,
            stderr=shown,
            check=False,
        )
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
