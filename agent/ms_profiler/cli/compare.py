"""`ms-profiler compare A B`: show the differences between two runs, and their causes."""

import argparse
import json
import sys
from typing import TYPE_CHECKING

from ms_profiler.errors import DependencyError

if TYPE_CHECKING:
    from ms_profiler.analysis.comparison.digest import Digest

NAME = "compare"
HELP = "show the differences between two runs, or two sets of repeated runs, with causes, and without a verdict"
FORMATS = ("terminal", "markdown", "json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    runs = "a result directory, a trace, or a parent of the ranks or of several runs"
    parser.add_argument("before", metavar="A", help=f"the run before: {runs}")
    parser.add_argument("after", metavar="B", help="the run after, likewise")
    parser.add_argument(
        "--format", choices=FORMATS, default="terminal", help="format of the answer (default: %(default)s)"
    )
    parser.add_argument("--top", type=_positive, metavar="N", help="rows of each table (default: 8)")
    parser.epilog = (
        "Exit code: 0 when the runs were compared, whatever differs; 2 when an argument or a result is unusable; 3 "
        "when the runs have nothing in common to compare. `ms-profiler gate` decides."
    )


def run(args: argparse.Namespace) -> int:
    """Print the differences between the runs, and their causes.

    Raises:
        DependencyError: a required package is not installed.
        StoreError: a path holds nothing that can be read.
        NotComparableError: the runs have no common quantity to compare.
    """
    try:
        from ms_profiler.analysis.comparison.comparing import compare
        from ms_profiler.analysis.report import differences
    except ModuleNotFoundError as error:
        raise DependencyError(f"Comparing needs Polars and Rich ({error}).") from error
    found = compare(_runs(args.before), _runs(args.after), (args.before, args.after))
    if args.format == "json":
        print(json.dumps(found.to_dict(), indent=1))
    elif args.format == "markdown":
        sys.stdout.write(differences.markdown(found, args.top))
    else:
        differences.show(found, args.top)
    return 0


def _runs(path: str) -> "list[Digest]":
    from ms_profiler.analysis.comparison.runs import digests

    watched = sys.stderr.isatty()

    def report(result: str) -> None:
        sys.stderr.write(f"\r\x1b[Kreading {result}")
        sys.stderr.flush()

    try:
        return digests(path, callback=report if watched else None)
    finally:
        if watched:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"a number of rows from 1 on, not {text}")
    return number
