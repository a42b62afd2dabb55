"""The table of Python functions in each part of a step, from sampled stacks."""

import os
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from ms_profiler.analysis.metrics import stack_parts
from ms_profiler.analysis.report import widths
from ms_profiler.analysis.report.bounded import PARTS

#: The table has no functions for these parts of a step. The name of the part says enough, or no Python function
#: explains the part.
_CLEAR: Final = ("computing", "kernel gap", "copy")
#: part of a step -> its title
_TITLES: Final = {"host": "other code, asleep, waiting"}
#: largest number of rows for each part of a step, and largest number of parts
_ROWS: Final = 4
_PARTS: Final = 5


def title(found: dict[str, Any]) -> str:
    """Return the title of the table.

    Args:
        found: `stacks` of the summary.
    """
    late, threads = found["late"], f"{found['threads']} thread{'s' * (found['threads'] > 1)}"
    return (
        f"Python functions in the parts of a step, from {found['samples']:,} samples of {threads} at "
        f"{found['rate']:g} Hz; samples were late by {late['median_us'] / 1e3:.2f} ms (median), "
        f"{late['max_us'] / 1e3:.1f} ms at most"
    )


def table(found: dict[str, Any] | None) -> Table | None:
    """Return a table of the functions with most samples in each part of a step; None without samples.

    Args:
        found: `stacks` of the summary.
    """
    if not found:
        return None
    parts = [part for part in found["bounds"] if part["name"] not in _CLEAR][:_PARTS]
    named = [(_TITLES.get(part["name"]) or PARTS.get(part["name"]) or part["name"], part) for part in parts]
    named += [("other (phase)", part) for part in found["phases"] if part["name"] == "other"]
    if not named:
        return None
    made = widths.table("function", "part", "of it", "called from")
    for column in (1, 3):
        made.columns[column].justify = "left"
    for name, part in named:
        for number, row in enumerate(part["rows"][:_ROWS]):
            origin = "" if row["called_from"] is None else _at(row["called_from"])
            made.add_row(Text(_at(row)), name if not number else "", f"{row['share'] * 100:5.1f} %", Text(origin))
    return made


def _at(row: dict[str, Any]) -> str:
    return f"{row['function']} ({os.path.basename(row['file'])}:{stack_parts.lines(row)})"
