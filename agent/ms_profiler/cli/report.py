"""`ms-profiler report DIR [DIR2]`: write an HTML page about a run, about its ranks, or about two runs compared."""

import argparse
import os

from ms_profiler.errors import DependencyError, UsageError
from ms_profiler.store import layout

NAME = "report"
HELP = "write report.html: a run, its ranks, or two runs compared, as a page that needs no network"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("directory", metavar="DIR", help="a result directory, a parent of ranks, or a trace")
    parser.add_argument("other", nargs="?", metavar="DIR2", help="a second run, to compare: DIR is before, DIR2 after")
    parser.add_argument(
        "--output", metavar="FILE", help=f"file that receives the page; by default {layout.REPORT} in the last result"
    )


def run(args: argparse.Namespace) -> int:
    """Write the page, and print its path.

    Raises:
        DependencyError: a required package is not installed.
        StoreError: a directory holds nothing that can be read.
        UsageError: a directory holds several results.
    """
    try:
        from ms_profiler.analysis.driver import engine
        from ms_profiler.analysis.page import file as page, launch
    except ModuleNotFoundError as error:
        raise DependencyError(f"A report needs Polars ({error}).") from error
    paths = []
    for directory in filter(None, (args.directory, args.other)):
        found = engine.find([directory])
        if len(found) > 1 and (args.other or len(launch.jobs(found)) > 1):
            names = ", ".join(os.path.basename(path) for path in found[:4])
            remedy = "Name one of them, or use `ms-profiler view`, which lists them."
            raise UsageError(f"{directory} holds {len(found)} results: {names}.", remedy)
        paths += found
    print(page.write(paths, args.output, compared=args.other is not None))
    return 0
