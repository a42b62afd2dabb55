"""`ms-profiler history FILE`: append runs to the history of a job, and show where its figures changed."""

import argparse
import json

from ms_profiler.cli.notice import say
from ms_profiler.errors import DependencyError
from ms_profiler.log import visible

NAME = "history"
HELP = "append runs to a file of JSON Lines, and find where the job's figures changed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("file", metavar="FILE", help="the history; made if missing")
    parser.add_argument("directories", nargs="*", metavar="DIR", help="results to append; without any, nothing changes")
    parser.add_argument("--label", default="", metavar="TEXT", help="name of the appended results, such as the commit")
    parser.add_argument("--json", action="store_true", help="print the changes as JSON")


def run(args: argparse.Namespace) -> int:
    """Append runs to the history of a job, and print where its figures changed.

    Raises:
        StoreError: the file is no history, or a path that should hold a result has nothing readable.
        UsageError: the file cannot be written.
        DependencyError: a required package is not installed.
    """
    try:
        from ms_profiler.gate import history, sides
    except ModuleNotFoundError as error:
        raise DependencyError(f"A history needs Polars ({error}).") from error
    if args.directories:
        digests = sides.read(args.directories, say)
        added = history.append(args.file, digests, args.label)
        left = f", {len(digests) - added} were in it" if added < len(digests) else ""
        say(f"{args.file}: {added} appended{left}.")
    lines = history.read(args.file)
    changes = history.changes(lines) if lines else []
    if args.json:
        found = [
            {
                "metric": each.metric,
                "label": each.label,
                "run": each.place,
                "before": round(each.point.before, 6),
                "after": round(each.point.after, 6),
                "ratio": None if each.point.ratio is None else round(each.point.ratio, 6),
                "p": each.point.p,
            }
            for each in changes
        ]
        print(json.dumps({"version": history.VERSION, "runs": len(lines), "changes": found}, indent=1))
        return 0
    for each in changes:
        point = each.point
        change = f"0 -> {point.after:,.6g}" if point.ratio is None else f"{point.ratio - 1:+.1%}"
        print(visible(f"{each.metric}: {change} from run {each.place} on ({each.label}), p {point.p:.3f}"))
    if not changes:
        print(f"No change in {len(lines)} {'run' if len(lines) == 1 else 'runs'}.")
    return 0
