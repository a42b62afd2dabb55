"""The rows of a table for a person at a terminal."""

from typing import TextIO

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text


def show(rows: pl.DataFrame, to: TextIO) -> None:
    """Print all rows; where that is no terminal, as wide as they are.

    Args:
        rows: what to print.
        to: where.
    """
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name, kind in rows.schema.items():
        table.add_column(Text(name), justify="right" if kind.is_numeric() else "left", overflow="fold")
    for row in rows.iter_rows():
        table.add_row(*(Text("" if value is None else str(value)) for value in row))
    console = Console(file=to, highlight=False)
    if not console.is_terminal:
        console.width = max(Measurement.get(console, console.options.update(max_width=10**6), table).maximum, 1)
    with console.capture() as captured:
        console.print(table)
    # tables are padded to the width of the terminal, which is of no use in a file
    to.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines() if line.strip()))
