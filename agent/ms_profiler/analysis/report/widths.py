"""Fit tables and lines to a terminal: long names lose their middle, numbers and words stay whole."""

import textwrap
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

#: number of cells between two columns
GAP: Final = 2
#: width, in cells, of a column whose words may be broken into lines
_WORDS: Final = 20
#: smallest width, in cells, of the column of names. If the terminal is too narrow, other columns are left out
_NAME: Final = 14
#: If a table is too wide, columns with these titles are left out first, in this order, and then the rightmost columns.
_FIRST: Final = ("", "average", "calls", "forward FLOPs", "parameters", "optimizer", "backward", "forward", "longest")
#: indentation of the second and later lines of a text
_INDENT: Final = "  "
#: The sign that replaces the middle of a long name. Both ends of a name matter: a C++ name has its type at the left, a
#: path has its last part at the right.
_SIGN: Final = "…"


def table(first: str, *others: str) -> Table:
    """Return an empty table with a column of names at the left and columns of numbers beside it.

    Args:
        first: the title of the column of names.
        others: the titles of the other columns; a column without a title holds bars.
    """
    made = Table(box=None, pad_edge=False, header_style="dim", padding=(0, GAP, 0, 0))
    made.add_column(first, no_wrap=True)
    for name in others:
        made.add_column(name, justify="right" if name else "left", no_wrap=True)
    return made


def fitted(made: Table, width: int) -> Table:
    """Return a table that is no wider than `width`, with a note about the columns that were left out.

    Args:
        made: a table that `table` made, with its rows.
        width: the width of the terminal, in cells.
    """
    names, *others = [[_text(column.header), *map(_text, column.cells)] for column in made.columns]
    longest = max(map(_cells, names))
    left = list(range(len(others)))
    least = min(longest, _NAME)

    def room() -> int:
        return width - sum(
            GAP + (max(map(_cells, others[at])) if made.columns[at + 1].no_wrap else _WORDS) for at in left
        )

    if room() < longest:
        for cells in others:  # make columns narrower: write each word of a title on a line of its own
            cells[0] = Text("\n".join(cells[0].plain.split()))
    order = sorted(left, key=lambda at: (_place(made.columns[at + 1].header), -at))
    while room() < least and len(left) > 1:
        left.remove(order.pop(0))
    space = max(room(), 1)
    shown = table("", *[""] * len(left))
    for at, column in zip((0, *(at + 1 for at in left)), shown.columns, strict=True):
        column.justify, column.no_wrap = made.columns[at].justify, made.columns[at].no_wrap
    columns = [[shortened(name, space) for name in names], *(others[at] for at in left)]
    for column, cells in zip(shown.columns, columns, strict=True):
        column.header = cells[0]
    for row in zip(*(cells[1:] for cells in columns), strict=True):
        shown.add_row(*row)
    left_out = [str(made.columns[at + 1].header) for at in range(len(others)) if at not in left]
    if titles := ", ".join(title for title in left_out if title):
        shown.caption, shown.caption_justify = Text(f"a wider terminal also shows: {titles}"), "left"
    return shown


def shortened(name: Text, width: int) -> Text:
    """Return a name of at most `width` cells; a longer name loses its middle."""
    text = name.plain
    if cell_len(text) <= width:
        return name
    before = width // 2
    behind = width - before - 1
    ending = set_cell_size(text[::-1], behind)[::-1] if behind else ""
    return Text(f"{set_cell_size(text, before)}{_SIGN}{ending}", style=name.style)


def lines(text: Text, out: Console, indent: str = "") -> None:
    """Print a text: on a terminal in lines of whole words, elsewhere in one line.

    Args:
        text: the text, without a newline.
        out: the console to print to.
        indent: the text before each line.
    """
    if not out.is_terminal:
        out.print(Text(indent) + text, soft_wrap=True)
        return
    plain = text.plain
    start = indent + plain[: len(plain) - len(plain.lstrip())]
    # do not break a path that is longer than a line, so that the user can select it with the mouse
    for line in textwrap.wrap(
        plain.strip(),
        out.width,
        initial_indent=start,
        subsequent_indent=start + _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    ):
        out.print(Text(line, style=text.style), soft_wrap=True)


def _place(header: object) -> int:
    return _FIRST.index(str(header)) if str(header) in _FIRST else len(_FIRST)


def _text(cell: object) -> Text:
    return cell if isinstance(cell, Text) else Text(str(cell))


def _cells(text: Text) -> int:
    return max(map(cell_len, text.plain.split("\n")))
