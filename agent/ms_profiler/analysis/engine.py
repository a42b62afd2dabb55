"""Analyse result directories: what was recorded -> tables -> metrics -> artefacts, one directory after the other."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ms_profiler.analysis import cpus, export, inputs
from ms_profiler.analysis.metrics.utilization import Workload
from ms_profiler.analysis.progress import Progress, Tell
from ms_profiler.analysis.request import Request
from ms_profiler.errors import DependencyError, StoreError, UsageError
from ms_profiler.store import layout

if TYPE_CHECKING:
    from ms_profiler.analysis.export import Export
    from ms_profiler.analysis.measures import Measures


@dataclass(frozen=True)
class Result:
    """What became of one directory.

    Attributes:
        directory: the result directory: that which holds what was derived.
        verdict: the biggest finding, one sentence.
        warning: what could not be read; empty when everything could.
        note: what of a long run is not in a form of the result that was asked for; empty when all is.
        error: why nothing was analysed, where another directory of the same call was; empty otherwise.
        slots: slots read.
    """

    directory: str
    verdict: str = ""
    warning: str = ""
    note: str = ""
    error: str = ""
    slots: int = 0


def analyse(
    directories: Sequence[str | os.PathLike[str]],
    *,
    step_list: Sequence[int] | None = None,
    pretty: bool = False,
    max_processes: int | None = None,
    data_simplification: bool = True,
    progress: Tell | None = None,
    output: str | None = None,
    packed: bool = False,
    forms: Collection[str] = (),
    workload: Workload | None = None,
    patience: float = export.PATIENCE_S,
) -> list[Result]:
    """Analyse the recordings in `directories` and write the artefacts into each.

    In a directory that another tool wrote, nothing of that tool's is replaced or removed: what it lacks is added.

    Args:
        directories: result directories, parents of some, or traces.
        step_list: consecutive step numbers to keep to.
        pretty: format JSON for people.
        max_processes: processors to use at most; by default all that the affinity mask and the control group allow.
        data_simplification: remove intermediate files. The store is raw data and stays either way, and this analysis
            leaves no intermediates.
        progress: told how far it is.
        output: a directory that receives one of its own for each result, in place of these.
        packed: write the timelines of our own recordings with gzip.
        forms: of the result besides those that the run itself asked for, see `Request`; tables as Parquet that are
            there already are renewed in any case.
        workload: what a step does, as far as the user knows.
        patience: seconds that CANN's msprof may take to read what aclprof recorded, for each folder of it.

    Raises:
        StoreError: no directory holds anything that can be read.
        UsageError: `step_list` is not consecutive, or holds no step of the run.
        DependencyError: Polars is not installed.
    """
    asked = Request(_consecutive(step_list), output, pretty, packed, frozenset(forms), workload or Workload(), patience)
    found = find(directories)
    cpus.limit_threads(max_processes)
    try:
        import polars  # noqa: F401
    except ModuleNotFoundError as error:
        raise DependencyError(f"Analysing needs Polars ({error}).") from error
    results: list[Result] = []
    for directory in found:
        try:
            results.append(_analyse(directory, asked, progress))
        except StoreError as error:
            if len(found) == 1:
                raise
            results.append(Result(directory, error=str(error.args[0])))
    if all(result.error for result in results):
        raise StoreError(" ".join(result.error for result in results))
    return results


def find(directories: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return the results and traces among `directories` and one level below them.

    Raises:
        StoreError: there is none.
    """
    return inputs.find([os.fspath(item) for item in directories])


def measured(
    path: str,
    chosen: list[int] | None = None,
    progress: Progress | None = None,
    exports: "Sequence[Export] | None" = None,
) -> "Measures":
    """Return one run, read and measured.

    Args:
        path: of `find`.
        chosen: the steps to keep to; None for all.
        progress: told how far it is.
        exports: what has been made of what aclprof recorded; None for what lies in the result.

    Raises:
        StoreError: nothing in it can be read.
        UsageError: the run has none of these steps.
    """
    # Polars takes 0.2 s to import, which is for nothing when there is no such directory
    from ms_profiler.analysis.ledger import Ledger
    from ms_profiler.analysis.measures import measure
    from ms_profiler.analysis.readers import foreign, msprof, store
    from ms_profiler.analysis.thinning import thin

    if inputs.kind(path) == inputs.Kind.STORE:
        recording = store.read(path, progress)
        msprof.attach(recording, export.look(path) if exports is None else exports)
        return measure(thin(recording, chosen, progress), chosen)
    return measure(foreign.read(path, Ledger(inputs.result(path)).ours), chosen)


def _analyse(path: str, asked: Request, tell: Tell | None) -> Result:
    from ms_profiler.analysis.ledger import Ledger
    from ms_profiler.analysis.writers import ARTEFACTS, DERIVED, DERIVED_SECTIONS, SECTIONS, core, database, parquet

    target = inputs.result(path, asked.output)
    if os.path.isdir(os.path.join(target, layout.TABLES)):
        asked = replace(asked, forms=asked.forms | {parquet.FORM})
    progress = Progress(path, tell)
    own = inputs.kind(path) == inputs.Kind.STORE
    measures = measured(path, asked.steps, progress, export.export(path, target, asked.patience) if own else ())
    measures.target, measures.asked = target, asked
    if own:
        written = core.write_sections(SECTIONS, measures, progress)
        core.tidy(SECTIONS, measures, written)
        for artefact in ARTEFACTS:
            core.write(artefact, measures)
    else:
        ledger = Ledger(target)
        ledger.write_sections(DERIVED_SECTIONS, measures)
        for artefact in DERIVED:
            ledger.write(artefact, measures)
    counts = measures.recording.counts
    note = database.left_out(measures)
    return Result(target, measures.finding.sentence, counts.describe(), note, slots=counts.slots)


def _consecutive(step_list: Sequence[int] | None) -> list[int] | None:
    if step_list is None:
        return None
    numbers = sorted(set(step_list))
    if not numbers or numbers != list(range(numbers[0], numbers[-1] + 1)):
        raise UsageError(f"A step list has to be consecutive integers, not {list(step_list)}.")
    return numbers
