"""`ms-profiler summary DIR`: show the use of a run's time and memory, with advice."""

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ms_profiler.analysis.driver import engine, inputs
from ms_profiler.analysis.metrics.utilization import Workload
from ms_profiler.cli import workload
from ms_profiler.errors import DependencyError, StoreError
from ms_profiler.store import layout, run_info

if TYPE_CHECKING:
    from rich.console import Console

NAME = "summary"
HELP = "show a result on the terminal; analyse it first, if that has not been done"


@dataclass(frozen=True)
class _Result:
    """A result to show: its directory, and the content of its summary.json."""

    directory: str
    content: dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "directories", nargs="+", metavar="DIR", help="a result directory, a parent of several, or a trace"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--last", action="store_true", help="show only the job that started last, with all of its ranks")
    which.add_argument(
        "--job",
        metavar="RESULT",
        default="",
        help="show only the job to which this result belongs, with all of its ranks, if DIR has several jobs",
    )
    parser.add_argument("--all", action="store_true", help="show everything, not just one screen")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print summary.json; for several results, an array",
    )
    parser.add_argument(
        "--top",
        type=_count,
        metavar="N",
        help="show everything, with N rows in the tables of operators, modules and dataset operations (default: 8, and "
        "14 modules); summary.json lists at most 20 operators and 200 modules, `ms-profiler sql` has all",
    )
    workload.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the summary of each result; if there are several, first print a list of them.

    Returns:
        2 if one of several results cannot be read, after a line on stderr that names this result; else 0.

    Raises:
        StoreError: there is no result that can be read.
        UsageError: there is no result with the name that --job gives.
        DependencyError: Rich is not installed.
    """
    try:
        from ms_profiler.analysis.report import index, screen, terminal
    except ModuleNotFoundError as error:
        raise DependencyError(f"Showing a summary needs Rich ({error}).") from error
    known = workload.workload(args)
    paths = _found(args.directories)
    if args.last:
        paths = _last(paths)
    results, errors = [], []
    for path in paths:
        try:
            results.append(_result(path, known))
        except StoreError as error:
            if len(paths) == 1:
                raise
            errors.append(f"ms-profiler: {error}")
    if args.job:
        results = _of_job(results, args.job)
    if args.json:
        _print_json(results)
    else:
        page = terminal.page()
        if len(results) > 1:
            _show_all_ranks(results, page)
            index.show([(result.directory, result.content) for result in results], page)
        for number, result in enumerate(results, 1):
            if len(results) > 1:
                index.separate(number, len(results), result.directory, page)
            with _damage_reported(result.directory):
                if args.all or args.top:
                    terminal.show(result.content, result.directory, page, args.top)
                else:
                    screen.show(result.content, result.directory, page)
    print(*errors, sep="\n", end="\n" if errors else "", file=sys.stderr)
    return StoreError.exit_code if errors else 0


def _found(directories: list[str]) -> list[str]:
    """Return the results and traces in some directories.

    Raises:
        StoreError: a directory holds no result. The error gives the likely reasons, as `ms-profiler doctor` does.
    """
    try:
        return engine.find(directories)
    except StoreError as error:
        from ms_profiler.doctor import result

        if error.remedy != StoreError.remedy:  # the error knows more than the doctor
            raise
        reasons = [f"  {finding.text} {finding.remedy}" for item in directories for finding in result.absent(item)]
        if not reasons:
            raise
        raise StoreError(str(error.args[0]), "\n".join(["Possible reasons:", *dict.fromkeys(reasons)])) from None


def _last(paths: list[str]) -> list[str]:
    """Return the results of that job which started last: one for each of its ranks."""
    started = {path: _start(path) for path in paths}
    newest = max(paths, key=lambda path: started[path])
    job = _job(newest)
    return [path for path in paths if path == newest or (job and _job(path) == job)]


def _of_job(results: list[_Result], wanted: str) -> list[_Result]:
    """Return the results of the job to which a result belongs, and those of other tools, which name no job.

    Args:
        results: the results to choose from.
        wanted: the path of a result, or the last part of the path.

    Raises:
        UsageError: there is no result `wanted`.
    """
    from ms_profiler.analysis.cluster import separate_jobs

    known = [separate_jobs.brief(result.directory, result.content["run"]) for result in results]
    chosen = {each.directory for each in separate_jobs.chosen(known, [], wanted)}
    return [result for result in results if result.directory in chosen]


def _start(path: str) -> float:
    """Return when the job of a result started, in seconds since the epoch.

    The results of other tools do not say this. For them, return the time at which the result was written.
    """
    try:
        return run_info.read_run(layout.run_info_path(path)).started_wall
    except (OSError, ValueError):
        return os.stat(path).st_mtime


def _job(path: str) -> str:
    """Return the id of a result's job, which all ranks of a launch share; empty if the result has none."""
    try:
        return run_info.read_run(layout.run_info_path(path)).job
    except (OSError, ValueError):
        return ""


def _result(path: str, known: Workload) -> _Result:
    """Return the content of a result's summary.json; analyse the result first if necessary.

    Raises:
        StoreError: the result cannot be read, or its summary.json was written by another tool.
    """
    from ms_profiler.analysis.driver.ledger import read_summary

    directory = inputs.result(path)
    if known.given or _outdated(path):
        if not _writable(directory):
            return _elsewhere(path, known)
        engine.analyse([path], workload=known)
    if read_summary(directory) is None:
        remedy = f"Write somewhere else: `ms-profiler analyse {path} --output DIR`."
        raise StoreError(f"{directory} holds a {layout.SUMMARY} of another tool.", remedy)
    return _Result(directory, _load(directory))


@contextlib.contextmanager
def _damage_reported(directory: str) -> Iterator[None]:
    """Raise a StoreError if a summary.json has values of other types than those that the analysis writes."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        file = os.path.join(directory, layout.SUMMARY)
        remedy = f"Write it anew: `ms-profiler analyse {directory}`."
        raise StoreError(f"{file} is damaged ({type(error).__name__}: {error}).", remedy) from error


def _show_all_ranks(results: list[_Result], page: "Console") -> None:
    """Print what a comparison of several ranks of one job shows."""
    from ms_profiler.analysis.cluster import gathering, job_summary
    from ms_profiler.analysis.report import all_ranks

    ranks = [result.directory for result in results if result.content["world_size"] > 1]
    if len(ranks) > 1:
        with contextlib.suppress(StoreError):  # without this comparison, the summary of each rank still says much
            job = gathering.gather(ranks)
            if len(job.exchanging) > 1:
                all_ranks.show(job_summary.summary(job), page, ranks=False)
                page.print()


def _print_json(results: list[_Result]) -> None:
    contents = [result.content for result in results]
    print(json.dumps(contents[0] if len(contents) == 1 else contents, indent=1))


def _writable(directory: str) -> bool:
    """Return whether a result directory can be written or, if it does not exist yet, made in its parent."""
    there = directory if os.path.exists(directory) else os.path.dirname(os.path.abspath(directory))
    return os.access(there, os.W_OK | os.X_OK)


def _elsewhere(path: str, known: Workload) -> _Result:
    """Analyse a result whose directory cannot be written, in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="ms_profiler_") as folder:
        (done,) = engine.analyse([path], workload=known, output=folder)
        content = _load(done.directory)
    print(f"ms-profiler: {inputs.result(path)} cannot be written, so the analysis is not stored.", file=sys.stderr)
    return _Result(inputs.result(path), content)


def _outdated(path: str) -> bool:
    """Return whether a result needs an analysis: it has no usable summary, or has changed since its last analysis."""
    directory = inputs.result(path)
    try:
        written = os.stat(os.path.join(directory, layout.SUMMARY)).st_mtime_ns
        running = any(process["state"] == "running" for process in _load(directory)["run"]["processes"])
        changed = max(os.stat(file).st_mtime_ns for file in _sources(path))
    except (OSError, ValueError, KeyError, TypeError):
        return True  # the summary is missing or unreadable, or the run is not over
    return running or changed > written


def _sources(path: str) -> list[str]:
    kind = inputs.kind(path)
    if kind == inputs.Kind.TRACE:
        return [path]
    folder = layout.framework_dir(path) if kind == inputs.Kind.STORE else layout.output_dir(path)
    return [os.path.join(below, name) for below, _, names in os.walk(folder) for name in names]


def _load(directory: str) -> dict[str, Any]:
    with open(os.path.join(directory, layout.SUMMARY), encoding="utf-8") as stream:
        content: dict[str, Any] = json.load(stream)
    return content


def _count(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"a number of rows from 1 on, not {text}")
    return number
