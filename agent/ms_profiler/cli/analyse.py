"""`ms-profiler analyse DIR...`: turn recordings into tables, a trace and a summary."""

import argparse
import contextlib
import json
import os
import sys
import time
from typing import Any

from ms_profiler.analysis.driver import engine, export
from ms_profiler.cli import workload
from ms_profiler.cli.notice import say
from ms_profiler.errors import MsProfilerError, StoreError
from ms_profiler.log import PREFIX, visible
from ms_profiler.store import layout

NAME = "analyse"
HELP = (
    "analyse recordings and results of other profilers: write timeline, tables and summary into each result directory"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "directories", nargs="+", metavar="DIR", help="a result directory, a parent of several, or a trace"
    )
    # A job starts this command at its end, with `--announce`. Then the command prints only one line, about the first
    # directory. If the job waits for the analysis, it reads this line from a pipe.
    parser.add_argument("--announce", action="store_true", help=argparse.SUPPRESS)
    # A script that calls the analysis gets lines like those at the end of a job.
    parser.add_argument("--in-script", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--collect", metavar="TARGET", help="copy the analysed results to this directory or s3:// address"
    )
    parser.add_argument("--step-list", type=_steps, metavar="N,N|N-M", help="analyse only these consecutive steps")
    parser.add_argument("--output", metavar="DIR", help="write into this directory, not into the results")
    parser.add_argument(
        "--gzip", action="store_true", help="compress the timelines of our recordings; Perfetto opens them compressed"
    )
    parser.add_argument(
        "--export",
        type=_forms,
        action="extend",
        default=[],
        metavar="FORM,FORM",
        help="forms of the result besides the usual files: db, databases; html, the page report.html; kineto, the "
        "timeline of our own recordings in Kineto's form; parquet, all tables (`ms-profiler tables` lists them) "
        "in the folder TABLES",
    )
    parser.add_argument("--pretty", action="store_true", help="format JSON for people")
    parser.add_argument("--max-process-number", type=int, metavar="N", help="use N processors at most")
    parser.add_argument(
        "--data-simplification",
        type=_truth,
        default=True,
        metavar="true|false",
        help="remove intermediate files (the recording itself always stays)",
    )
    parser.add_argument(
        "--msprof-timeout",
        type=float,
        default=export.PATIENCE_S,
        metavar="SECONDS",
        help="seconds that CANN's msprof may take for each folder of aclprof (default: %(default)g)",
    )
    workload.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Analyse the recordings in some directories, and print a line for each; return 2 if one cannot be read."""
    progress = _Progress() if sys.stderr.isatty() else None
    results = engine.analyse(
        args.directories,
        step_list=args.step_list,
        pretty=args.pretty,
        max_processes=args.max_process_number,
        data_simplification=args.data_simplification,
        progress=progress,
        output=args.output,
        packed=args.gzip,
        forms=args.export,
        workload=workload.workload(args),
        patience=args.msprof_timeout,
    )
    if progress is not None:
        progress.clear()
    copied, sent = _copy([result.directory for result in results], args.collect)
    for index, result in enumerate(results):
        if result.error:
            say(result.error)
            continue
        if result.warning:
            say(f"not all of {result.directory} could be read: {result.warning}")
        for note in result.notes:
            say(note)
        if not args.announce and not args.in_script:
            print(visible(f"{result.verdict} {result.directory}{copied}"))
        elif args.in_script or index == 0:
            line = visible(f"{PREFIX}{_announcement(result, len(results))}{copied}\n")
            with contextlib.suppress(BrokenPipeError):  # the job reads this line, but it may have stopped waiting
                os.write(sys.stdout.fileno(), line.encode("utf-8", "replace"))
    return StoreError.exit_code if any(result.error for result in results) or not sent else 0


def _announcement(result: engine.Result, ranks: int) -> str:
    """Return the job's last line: the verdict, the largest other loss of time, a part outside of the steps, the place.

    If all ranks were analysed, the place is the folder of their results: only together do they tell which rank is late.

    Args:
        result: the result of this rank.
        ranks: the number of results that were analysed.
    """
    from ms_profiler.analysis.report import losses, remarks

    content: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError), open(os.path.join(result.directory, layout.SUMMARY), "rb") as stream:
        content = json.load(stream)
    lost = (*losses.largest(content), *remarks.outside(content))
    sentences = [result.verdict, *(f"{line}." for line in lost)]
    if ranks == 1:
        return f"{' '.join(sentences)} More: ms-profiler summary {result.directory}"
    sentences[0] = f"Rank {content.get('rank', 0)}: {sentences[0]}"
    return f"{' '.join(sentences)} More about {ranks} ranks: ms-profiler summary {os.path.dirname(result.directory)}"


def _copy(results: list[str], target: str | None) -> tuple[str, bool]:
    """Copy results to a place that all machines share; return a remark about the copies, and whether all succeeded."""
    if not target:
        return "", True
    from ms_profiler.analysis.cluster import gathered_files

    try:
        left_out = gathered_files.copy(results, target).remarks
    except MsProfilerError as error:
        return f" ; {error.args[0]}", False
    return f" ; {' '.join(left_out) or f'copied to {target}'}", not left_out


class _Progress:
    """A line on a terminal that shows the progress: finished share, speed and time left. It overwrites itself."""

    INTERVAL_S = 0.1

    def __init__(self) -> None:
        self._directory = ""
        self._since = self._shown = time.monotonic()

    def __call__(self, directory: str, share: float, records: int) -> None:
        now = time.monotonic()
        if directory != self._directory:
            self._directory, self._since = directory, now
        elif now - self._shown >= self.INTERVAL_S and share > 0:
            self._shown = now
            took = now - self._since
            rate = records * share / took / 1e6
            left = took / share - took
            sys.stderr.write(
                f"\r\x1b[K{directory}: {share * 100:.0f} %, {rate:.1f} million records a second, {left:.0f} s left"
            )
            sys.stderr.flush()

    def clear(self) -> None:
        """Remove the line about the progress from the terminal."""
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _steps(text: str) -> list[int]:
    first, dash, last = text.strip("[]").partition("-")
    if dash:
        return list(range(int(first), int(last) + 1))
    return [int(number) for number in first.split(",")]


def _forms(text: str) -> list[str]:
    known = ("db", "html", "kineto", "parquet")
    chosen = text.split(",")
    if not set(chosen) <= set(known):
        raise argparse.ArgumentTypeError(f"some of {', '.join(known)}, separated by commas, not {text}")
    return chosen


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"true or false, not {text}")
    return text.lower() == "true"
