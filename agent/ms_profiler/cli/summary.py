"""`ms-profiler summary DIR`: show what a run was spent on."""

import argparse
import json
import os
import sys
import tempfile
from typing import Any

from ms_profiler.analysis.driver import engine, inputs
from ms_profiler.analysis.metrics.utilization import Workload
from ms_profiler.cli import workload
from ms_profiler.errors import DependencyError, StoreError
from ms_profiler.store import layout

NAME = "summary"
HELP = "show a result on the terminal, analysing it first where that has not been done"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "directories", nargs="+", metavar="DIR", help="a result directory, a parent of several, or a trace"
    )
    workload.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the summary of each result directory."""
    try:
        from ms_profiler.analysis.driver.ledger import read_summary
        from ms_profiler.analysis.report import terminal
    except ModuleNotFoundError as error:
        raise DependencyError(f"Showing a summary needs Rich ({error}).") from error
    known = workload.workload(args)
    for path in engine.find(args.directories):
        directory = inputs.result(path)
        if known.given or _outdated(path):
            if not _writable(directory):
                _show_elsewhere(path, known)
                continue
            engine.analyse([path], workload=known)
        if read_summary(directory) is None:
            remedy = f"Write somewhere else: `ms-profiler analyse {path} --output DIR`."
            raise StoreError(f"{directory} holds a {layout.SUMMARY} of another tool.", remedy)
        terminal.show(_load(directory), directory)
    return 0


def _writable(directory: str) -> bool:
    """Tell whether a result can be written: there, or, where it is not there yet, beside what it is of."""
    there = directory if os.path.exists(directory) else os.path.dirname(os.path.abspath(directory))
    return os.access(there, os.W_OK | os.X_OK)


def _show_elsewhere(path: str, known: Workload) -> None:
    """Show a summary of what lies where nothing can be written."""
    from ms_profiler.analysis.report import terminal

    with tempfile.TemporaryDirectory(prefix="ms_profiler_") as folder:
        (done,) = engine.analyse([path], workload=known, output=folder)
        terminal.show(_load(done.directory), inputs.result(path))
    print(f"ms-profiler: {inputs.result(path)} cannot be written: nothing of this is kept there.", file=sys.stderr)


def _outdated(path: str) -> bool:
    """Tell whether there is no usable summary, or what it is of has changed since it was written."""
    directory = inputs.result(path)
    try:
        written = os.stat(os.path.join(directory, layout.SUMMARY)).st_mtime_ns
        running = any(process["state"] == "running" for process in _load(directory)["run"]["processes"])
        changed = max(os.stat(file).st_mtime_ns for file in _sources(path))
    except (OSError, ValueError, KeyError, TypeError):
        return True  # no summary, one that cannot be read, or files of a run that is going on
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
