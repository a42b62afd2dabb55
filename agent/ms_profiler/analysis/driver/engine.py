"""Analyse result directories one after the other: recording -> tables -> metrics -> files."""

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ms_profiler.analysis.driver import cpus, export, inputs, liveness
from ms_profiler.analysis.driver.progress import Callback, Progress
from ms_profiler.analysis.driver.request import Request
from ms_profiler.analysis.metrics.utilization import Workload
from ms_profiler.errors import DependencyError, StoreError, UsageError
from ms_profiler.store import layout

if TYPE_CHECKING:
    from ms_profiler.analysis.driver.export import Export
    from ms_profiler.analysis.metrics.measures import Measures
    from ms_profiler.analysis.model.tables import Recording


#: number of attempts to write timelines; each attempt shows fewer steps
ATTEMPTS = 5
#: Inputs of up to so many bytes are analysed with one thread of Polars. The analysis of a small job makes 3,000 queries
#: of some rows each. A second thread then takes a quarter more processor time, and makes nothing faster. With a million
#: events (31 MB), both took the same time; with three millions, two threads took 15 % less time.
SMALL = 16 << 20


@dataclass(frozen=True)
class Result:
    """The outcome of analysing one directory.

    Attributes:
        directory: the result directory, which holds the files.
        verdict: the most important finding, one sentence.
        warning: the parts that could not be read; empty if all could be read.
        notes: sentences about requested data that is missing or incomplete.
        error: the reason why this directory could not be analysed; empty if it could. If no directory can be analysed,
            `analyse` raises an error instead.
        slots: the number of records that were read.
    """

    directory: str
    verdict: str = ""
    warning: str = ""
    notes: tuple[str, ...] = ()
    error: str = ""
    slots: int = 0


def analyse(
    directories: Sequence[str | os.PathLike[str]],
    *,
    step_list: Sequence[int] | None = None,
    pretty: bool = False,
    max_processes: int | None = None,
    data_simplification: bool = True,
    progress: Callback | None = None,
    output: str | None = None,
    packed: bool = False,
    forms: Collection[str] = (),
    workload: Workload | None = None,
    patience: float = export.PATIENCE_S,
) -> list[Result]:
    """Analyse the recordings in `directories`, and write the files of the results into these directories.

    In a directory of another tool, no file of the tool is replaced or removed, and missing files are added.

    Args:
        directories: result directories, directories that hold such directories, or traces.
        step_list: consecutive step numbers to analyse.
        pretty: format JSON for people.
        max_processes: largest number of processors to use; by default as many as affinity mask and control group allow.
            Small inputs use one (`SMALL`).
        data_simplification: ignored; accepted because MindSpore's interface has this argument. The analysis leaves no
            intermediate files, and never removes the store.
        progress: a function that is called with the directory, the finished part (0 to 1) and the number of records.
        output: a directory that receives a directory for each result; by default, files go into the results.
        packed: compress the timelines of ms-profiler's own recordings with gzip.
        forms: forms of the result in addition to those in the run's options: values of `export_type`, and "parquet".
            Existing Parquet tables are always renewed.
        workload: the work of a step, as the user stated it, such as its floating-point operations.
        patience: seconds that CANN's msprof may take for each folder of aclprof.

    Raises:
        StoreError: no directory holds anything that can be read.
        UsageError: `step_list` is not consecutive, or holds no step of the run.
        DependencyError: Polars is not installed.
    """
    request = Request(
        _consecutive(step_list), output, pretty, packed, frozenset(forms), workload or Workload(), patience
    )
    found = find(directories)
    cpus.limit_polars(1 if inputs.small(found, SMALL) else max_processes)
    try:
        import orjson  # noqa: F401
        import polars  # noqa: F401
    except ModuleNotFoundError as error:
        raise DependencyError(f"Analysing needs Polars and orjson ({error}).") from error
    results: list[Result] = []
    for directory in found:
        try:
            results.append(_analyse(directory, request, progress))
        except StoreError as error:
            if len(found) == 1:
                raise
            results.append(Result(directory, error=str(error.args[0])))
    if all(result.error for result in results):
        raise StoreError(" ".join(result.error for result in results))
    return results


def find(directories: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return the paths of results and traces: among `directories`, and directly inside of them.

    Raises:
        StoreError: one of the directories holds no result and no trace.
    """
    return inputs.find([os.fspath(item) for item in directories])


def measured(
    path: str,
    chosen: list[int] | None = None,
    progress: Progress | None = None,
    exports: "Sequence[Export] | None" = None,
) -> "Measures":
    """Read one run, and compute its metrics.

    Args:
        path: a path that `find` returned.
        chosen: the steps to analyse; None for all.
        progress: receives the progress.
        exports: exports of aclprof's data; None to use the exports that are stored in the result.

    Raises:
        StoreError: nothing at the path can be read.
        UsageError: the run has none of these steps.
    """
    # imported here, because importing Polars takes 0.2 s, and an error such as a missing directory needs no Polars
    from ms_profiler.analysis.columns import COLUMNS
    from ms_profiler.analysis.driver.ledger import Ledger
    from ms_profiler.analysis.driver.thinning import thin
    from ms_profiler.analysis.metrics import host_load
    from ms_profiler.analysis.metrics.measures import measure
    from ms_profiler.analysis.readers import foreign, msprof, store

    if inputs.kind(path) == inputs.Kind.STORE:
        recording = store.read(path, progress)
        host_load.draw(recording)
        msprof.attach(recording, export.look(path) if exports is None else exports)
        recording = thin(recording, chosen, progress)
        COLUMNS.trim()
        return measure(recording, chosen)
    return measure(foreign.read(path, Ledger(inputs.result(path)).ours), chosen)


def _analyse(path: str, request: Request, callback: Callback | None) -> Result:
    from ms_profiler.analysis.driver.ledger import Ledger
    from ms_profiler.analysis.driver.room import Room
    from ms_profiler.analysis.writers import (
        ARTEFACTS,
        DERIVED,
        DERIVED_SECTIONS,
        SECTIONS,
        core,
        parquet,
        report_html,
        summary,
    )

    target = inputs.result(path, request.output)
    core.refuse_links(target)
    if os.path.isdir(os.path.join(target, layout.TABLES)):
        request = replace(request, forms=request.forms | {parquet.FORM})
    progress = Progress(path, callback)
    own = inputs.kind(path) == inputs.Kind.STORE
    measures = measured(path, request.steps, progress, export.export(path, target, request.patience) if own else ())
    measures.target, measures.request = target, request
    if own:
        page = report_html.begin(measures)
        core.tidy(SECTIONS, measures, _write_sections(path, measures, progress))
        for artefact in ARTEFACTS:
            if artefact is report_html:
                _add_exit_codes(measures.recording)
            if artefact is summary:
                measures.room = Room()  # no limit: the summary names the files for which there was no room
            core.write(page if page and artefact is report_html else artefact, measures)
    else:
        ledger = Ledger(target)
        ledger.write_sections(DERIVED_SECTIONS, measures)
        for artefact in DERIVED:
            ledger.write(artefact, measures)
    counts = measures.recording.counts
    return Result(target, measures.verdict, counts.describe(), tuple(_notes(measures)), slots=counts.slots)


def _add_exit_codes(recording: "Recording") -> None:
    """Add the exit codes of processes that ended only after ms-profiler had read the store."""
    import polars as pl

    states = {process: liveness.with_code(code) for process, code in liveness.exit_codes(recording.directory).items()}
    codes = pl.col("process").replace_strict(states, default=pl.col("state"), return_dtype=pl.String)
    ended = pl.col("state") == liveness.EXIT
    recording.processes = recording.processes.with_columns(pl.when(ended).then(codes).otherwise("state").alias("state"))


def _notes(measures: "Measures") -> Iterator[str]:
    """Yield one sentence for each kind of requested data that is missing or incomplete."""
    from ms_profiler.analysis.writers import database, kineto_trace

    forms = measures.request.forms
    if database.FORM in forms and (why := database.refused(measures)):
        yield f"--export {database.FORM} makes no database of {measures.recording.directory}: {why}."
    if kineto_trace.FORM in forms and measures.recording.foreign:
        why = "only recordings of ms-profiler have that timeline"
        yield f"--export {kineto_trace.FORM} makes nothing of {measures.recording.directory}: {why}."
    if left_out := database.left_out(measures):
        yield left_out


def _write_sections(path: str, measures: "Measures", progress: Progress) -> list[str]:
    """Write timelines and single kernels for as many steps as the disk space allows. Return the paths of the files."""
    from ms_profiler.analysis.columns import COLUMNS
    from ms_profiler.analysis.driver import fitting, room
    from ms_profiler.analysis.writers import SECTIONS, core

    for attempt in range(ATTEMPTS):
        space = measures.room.part(room.SECTIONS)
        before, steps = space.left, fitting.narrowed(measures, space, attempt)
        if steps == []:
            break
        narrow = measures if steps is None else measured(path, steps)
        narrow.target, narrow.request = measures.target, measures.request
        try:
            written = core.write_sections(SECTIONS, narrow, progress, space)
        except room.FullError:
            continue
        COLUMNS.trim()
        if before is not None and space.left is not None:
            measures.room.take(before - space.left)
        measures.section_count = narrow.section_count
        if steps is not None:
            left_out = f"the timeline and single kernels, except for steps {steps[0]} to {steps[-1]}"
            fitting.left_out(measures, left_out, fitting.TIMELINES)
        return written
    fitting.left_out(measures, "the timeline and single kernels", fitting.TIMELINES)
    return []


def _consecutive(step_list: Sequence[int] | None) -> list[int] | None:
    if step_list is None:
        return None
    numbers = sorted(set(step_list))
    if not numbers or numbers != list(range(numbers[0], numbers[-1] + 1)):
        raise UsageError(f"A step list has to be consecutive integers, not {list(step_list)}.")
    return numbers
