"""Print the rows of a query's result for a person at a terminal."""

from typing import Final, TextIO

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from ms_profiler.analysis.report.console import Terminal

#: smallest width, in terminal cells, to which a column of long texts is narrowed
_TEXT: Final = 12
#: number of cells between two columns, and at both sides of the table
_GAP: Final = 3
_EDGES: Final = 2


def show(rows: pl.DataFrame, to: TextIO) -> None:
    """Print all rows.

    On a terminal, long texts are broken into lines; numbers are never broken. In a file or pipe, each row is one line.

    Args:
        rows: the rows to print.
        to: the stream to print to.
    """
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    cells = [["" if value is None else str(value) for value in row] for row in rows.iter_rows()]
    for place, (name, kind) in enumerate(rows.schema.items()):
        widest = max((cell_len(text) for text in (name, *(row[place] for row in cells))), default=1)
        table.add_column(Text(name), justify="right" if kind.is_numeric() else "left", overflow="fold", width=widest)
    for row in cells:
        table.add_row(*map(Text, row))
    console = Terminal(file=to, highlight=False)
    if console.is_terminal:
        _narrow(table, console.width)
    # Rich breaks no line itself. The terminal breaks lines that are too long, so that a user can copy them whole
    console.width = _needs(table)
    with console.capture() as captured:
        console.print(table)
    # Rich pads tables with blanks to the width of the terminal; a file needs no blanks at the ends of lines
    to.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines() if line.strip()))


def _needs(table: Table) -> int:
    return sum(column.width or 1 for column in table.columns) + _GAP * (len(table.columns) - 1) + _EDGES


def _narrow(table: Table, width: int) -> None:
    """Make the widest columns of texts narrower, until the table fits, or until they have their smallest width."""
    texts = [column for column in table.columns if column.justify == "left"]
    while (over := _needs(table) - width) > 0:
        widest = max(texts, key=lambda column: column.width or 0, default=None)
        if widest is None or (widest.width or 0) <= _TEXT:
            return
        widest.width = max((widest.width or 0) - over, _TEXT)
