"""`ms-profiler summary DIR`: show what a run was spent on."""

import argparse
import json
import os
from typing import Any

from ms_profiler.analysis import engine
from ms_profiler.errors import DependencyError
from ms_profiler.store import layout

NAME = "summary"
HELP = "show a result on the terminal, analysing it first where that has not been done"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("directories", nargs="+", metavar="DIR", help="a result directory, or a parent of several")


def run(args: argparse.Namespace) -> int:
    """Print the summary of each result directory."""
    try:
        from ms_profiler.analysis.report import terminal
    except ModuleNotFoundError as error:
        raise DependencyError(f"Showing a summary needs Rich ({error}).") from error
    for directory in engine.find(args.directories):
        if _outdated(directory):
            engine.analyse([directory])
        terminal.show(_load(directory), directory)
    return 0


def _outdated(directory: str) -> bool:
    """Tell whether there is no usable summary, or the store has changed since it was written."""
    path = os.path.join(directory, layout.SUMMARY)
    try:
        written = os.stat(path).st_mtime_ns
        running = any(process["state"] == "running" for process in _load(directory)["run"]["processes"])
        changed = max(os.stat(file).st_mtime_ns for file in _store_files(directory))
    except (OSError, ValueError, KeyError, TypeError):
        return True  # no summary, one that cannot be read, or files of a run that is going on
    return running or changed > written


def _store_files(directory: str) -> list[str]:
    walk = os.walk(layout.framework_dir(directory))
    return [os.path.join(folder, name) for folder, _, names in walk for name in names]


def _load(directory: str) -> dict[str, Any]:
    with open(os.path.join(directory, layout.SUMMARY), encoding="utf-8") as stream:
        content: dict[str, Any] = json.load(stream)
    return content
