"""`ms-profiler merge DIR`: write one timeline of several ranks."""

import argparse
import os
from typing import TYPE_CHECKING

from ms_profiler.errors import DependencyError, UsageError
from ms_profiler.log import visible
from ms_profiler.option_types import rank_ranges
from ms_profiler.store import layout

if TYPE_CHECKING:
    from ms_profiler.analysis.cluster.merged_timeline import Merged

NAME = "merge"
HELP = "write one timeline of several ranks: a process per rank, one clock, arrows between the ranks of an exchange"
#: largest number of steps that a list on the command line, such as `1-100`, may name
MOST = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "directories",
        nargs="+",
        metavar="DIR",
        help="the directory of the results of all ranks, or its address: s3://...",
    )
    parser.add_argument(
        "--job",
        metavar="RESULT",
        default="",
        help="draw the job to which this result belongs, if DIR has several jobs (default: the newest job)",
    )
    parser.add_argument("--steps", metavar="N,N|N-M", help="only these consecutive steps")
    parser.add_argument("--ranks", metavar="N,N-M", help="only these ranks")
    parser.add_argument(
        "--output", metavar="FILE", help=f"where the timeline goes; by default {layout.PERFETTO_TRACE} in the first DIR"
    )


def run(args: argparse.Namespace) -> int:
    """Write one timeline of several ranks, and print its path and what it contains.

    Raises:
        StoreError: there is no result that can be read.
        UsageError: no result belongs to the requested ranks, or none has the requested steps.
        DependencyError: Polars is not installed.
    """
    try:
        from ms_profiler.analysis.cluster import merged_timeline, storage
    except ModuleNotFoundError as error:
        raise DependencyError(f"Joining timelines needs Polars and orjson ({error}).") from error
    ranks = None if args.ranks is None else [range(low, high + 1) for low, high in _ranges(args.ranks, "--ranks")]
    steps = None
    if args.steps is not None:
        numbers = sorted({number for low, high in _ranges(args.steps, "--steps") for number in range(low, high + 1)})
        if numbers != list(range(numbers[0], numbers[-1] + 1)):
            raise UsageError(f"--steps {args.steps} is not consecutive.", "Name steps as 10-12.")
        steps = numbers
    if not args.output and storage.remote(args.directories[0]):
        raise UsageError(f"{args.directories[0]} is no directory of this machine.", "Name a file with --output.")
    output = args.output or os.path.join(_folder(args.directories[0]), layout.PERFETTO_TRACE)
    merged = merged_timeline.merge(storage.find(args.directories), output, ranks, steps, args.job)
    for remark in merged.remarks:
        print(visible(remark))
    count = len(merged.ranks)
    print(
        f"{count} rank{'s' * (count != 1)}, {merged.exchanges} exchanges, {merged.flows} of them joined by flows; "
        f"largest error of the clocks: {_certain(merged)}."
    )
    print(merged.path)
    return 0


def _certain(merged: "Merged") -> str:
    known = [each.clock.uncertainty_ns for each in merged.ranks if each.clock.uncertainty_ns is not None]
    limit = f"{max(known, default=0) / 1e6:.3f} ms"
    if len(known) < len(merged.ranks):
        rest = len(merged.ranks) - len(known)
        return f"{limit}, but unknown for {rest} without an exchange with the others, placed by the wall clock"
    return limit


def _ranges(text: str, option: str) -> list[tuple[int, int]]:
    try:
        found = rank_ranges(text)
    except ValueError:
        found = []
    if not found or any(high - low > MOST for low, high in found):
        raise UsageError(f"{option} {text} is no list of numbers.", "Write it as 0-7 or 0,2,4-6.")
    return list(found)


def _folder(directory: str) -> str:
    return directory if os.path.isdir(directory) else os.path.dirname(os.path.abspath(directory))
