"""Analyse result directories: store -> tables -> metrics -> artefacts, one directory after the other."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ms_profiler.analysis import cpus
from ms_profiler.errors import DependencyError, StoreError, UsageError
from ms_profiler.store import layout

#: told the directory and the slots read so far
Progress = Callable[[str, int], None]


@dataclass(frozen=True)
class Result:
    """What became of one directory.

    Attributes:
        directory: the result directory.
        verdict: the biggest finding, one sentence.
        warning: what could not be read; empty when everything could.
        error: why nothing was analysed, where another directory of the same call was; empty otherwise.
        slots: slots read.
    """

    directory: str
    verdict: str = ""
    warning: str = ""
    error: str = ""
    slots: int = 0


def analyse(
    directories: Sequence[str | os.PathLike[str]],
    *,
    step_list: Sequence[int] | None = None,
    pretty: bool = False,
    max_processes: int | None = None,
    data_simplification: bool = True,
    progress: Progress | None = None,
) -> list[Result]:
    """Analyse the recordings in `directories` and write the artefacts into each.

    Args:
        directories: result directories, or parents of some.
        step_list: consecutive step numbers to keep to.
        pretty: format JSON for people.
        max_processes: processors to use at most; by default all that the affinity mask and the control group allow.
        data_simplification: remove intermediate files. The store is raw data and stays either way, and this analysis
            leaves no intermediates.
        progress: called while reading.

    Raises:
        StoreError: no directory holds anything that can be read.
        UsageError: `step_list` is not consecutive, or holds no step of the run.
        DependencyError: Polars is not installed.
    """
    chosen = _consecutive(step_list)
    found = find(directories)
    cpus.limit_threads(max_processes)
    try:
        import polars  # noqa: F401
    except ModuleNotFoundError as error:
        raise DependencyError(f"Analysing needs Polars ({error}).") from error
    results: list[Result] = []
    for directory in found:
        try:
            results.append(_analyse(directory, chosen, pretty, progress))
        except StoreError as error:
            if len(found) == 1:
                raise
            results.append(Result(directory, error=str(error.args[0])))
    if all(result.error for result in results):
        raise StoreError(" ".join(result.error for result in results))
    return results


def find(directories: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return the result directories among `directories` and one level below them.

    Raises:
        StoreError: there is none.
    """
    found: list[str] = []
    for directory in [os.fspath(item) for item in directories]:
        if os.path.isdir(layout.framework_dir(directory)):
            below = [directory]
        else:
            below = [os.path.join(directory, name) for name in _names(directory) if name.endswith(layout.SUFFIX)]
            below = [path for path in below if os.path.isdir(layout.framework_dir(path))]
        if not below:
            raise StoreError(f"{directory} holds no recording.")
        found += [path for path in below if path not in found]
    return found


def _analyse(directory: str, chosen: list[int] | None, pretty: bool, progress: Progress | None) -> Result:
    # Polars takes 0.2 s to import, which is for nothing when there is no such directory
    from ms_profiler.analysis.measures import measure
    from ms_profiler.analysis.readers import store
    from ms_profiler.analysis.thinning import thin
    from ms_profiler.analysis.writers import ARTEFACTS, core

    recording = store.read(directory, None if progress is None else lambda slots: progress(directory, slots))
    measures = measure(thin(recording, chosen), chosen)
    for artefact in ARTEFACTS:
        core.write(artefact, measures, pretty=pretty)
    counts = recording.counts
    return Result(directory, measures.finding.sentence, counts.describe(), slots=counts.slots)


def _consecutive(step_list: Sequence[int] | None) -> list[int] | None:
    if step_list is None:
        return None
    numbers = sorted(set(step_list))
    if not numbers or numbers != list(range(numbers[0], numbers[-1] + 1)):
        raise UsageError(f"A step list has to be consecutive integers, not {list(step_list)}.")
    return numbers


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError as error:
        raise StoreError(f"{directory}: {error.strerror}.") from error
