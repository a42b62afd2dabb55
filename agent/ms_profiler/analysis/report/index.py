"""Print several results: first a list of them, then a line with its name above the summary of each result."""

from typing import Any, Final

from rich.console import Console
from rich.rule import Rule
from rich.table import Table

from ms_profiler.analysis.report import stepping, widths
from ms_profiler.analysis.report.durations import milliseconds

#: number of characters of `started` that are shown: date and time to the second
_SECONDS: Final = len("2026-01-01T00:00:00")


def show(results: list[tuple[str, dict[str, Any]]], out: Console) -> None:
    """Print a numbered line for each result: directory, rank, begin, length, steps and finding.

    Args:
        results: for each result, its directory and the content of its summary.json.
        out: the console to print to.
    """
    table = widths.table("result", "rank", "started (UTC)", "run", "steps", "median step", "finding")
    table.columns[-1].justify, table.columns[-1].no_wrap = "left", False
    for number, (directory, summary) in enumerate(results, 1):
        steps = summary["steps"]
        counted = stepping.counted(summary)
        median = steps["steady"]["median_ms"] if counted else None
        table.add_row(
            f"{number}. {directory}",
            f"{summary['rank']} of {summary['world_size']}",
            summary["run"]["started"][:_SECONDS].replace("T", " "),
            f"{summary['run']['duration_s']:.2f} s",
            str(steps["count"]) if counted else "-",
            "-" if median is None else milliseconds(median),
            summary["verdict"],
        )
    _print(widths.fitted(table, out.width), out)


def separate(number: int, count: int, directory: str, out: Console) -> None:
    """Print the line that begins the summary of one result among several.

    Args:
        number: the number of the result in the list, from 1.
        count: the number of results in the list.
        directory: the directory of the result.
        out: the console to print to.
    """
    out.print()
    out.print(Rule(f"{number} of {count}: {directory}", align="left", style="dim", characters="─"))


def _print(table: Table, out: Console) -> None:
    with out.capture() as captured:
        out.print(table)
    out.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))
