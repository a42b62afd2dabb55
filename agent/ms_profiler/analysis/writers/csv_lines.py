"""Write tables as CSV: `write` is for tables of many rows, `write_frame` for tables of few rows.

A spreadsheet runs a cell that begins like a formula, even if the text comes from a stranger. So this module puts an
apostrophe in front of such a text. Spreadsheets do not show the apostrophe (OWASP, "CSV Injection").
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Final

import polars as pl

from ms_profiler.analysis.columns import COLUMNS, Choice, Part, Texts
from ms_profiler.analysis.writers import numbers

#: a cell with one of these characters needs quotes
_SPECIAL: Final = frozenset(',"\r\n')
#: Spreadsheets take a text that begins like `_FORMULA` for a formula. Numbers such as -1.5 (`_NUMBER`) are exceptions.
_FORMULA: Final = r"^[=+\-@\t\r]"
_NUMBER: Final = r"^[-+]?[0-9.]+([eE][-+]?[0-9]+)?\s*$"
_TEXT: Final = "'"


class Cells:
    """Texts as cells of a table, in quotes where CSV needs them."""

    def __init__(self, texts: pl.Series) -> None:
        """Prepare the texts; null becomes N/A."""
        self._nothing = len(texts)
        self._texts = Texts([*map(_cell, texts), numbers.NOTHING])

    def at(self, index: pl.Series) -> Choice:
        """Return the cells of the texts at `index`; N/A where the index is null."""
        return self._texts.at(index.fill_null(self._nothing))


def write(stream: BinaryIO, count: int, columns: Mapping[str, Sequence[Part]]) -> None:
    """Write the rows of a table.

    Args:
        stream: the stream to write to.
        count: number of rows.
        columns: name of a column -> constant texts and columns of values; put together, they form the cells.
    """
    parts = [part for cell in columns.values() for part in (*cell, ",")]
    COLUMNS.write_rows(stream, count, [*parts[:-1], "\n"])


def write_frame(table: pl.DataFrame, stream: BinaryIO, **how: Any) -> None:
    """Write a table of few rows.

    Args:
        table: the table.
        stream: the stream to write to.
        how: arguments of Polars' `write_csv`.
    """
    inert(table).write_csv(stream, **how)


def inert(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table in which no text begins like a formula.

    Args:
        table: any table.
    """
    if pl.String not in table.dtypes:
        return table
    texts = pl.col(pl.String)
    plain = ~texts.str.contains(_FORMULA) | texts.str.contains(_NUMBER)
    return table.with_columns(pl.when(plain).then(texts).otherwise(pl.concat_str(pl.lit(_TEXT), texts)))


def _cell(text: str | None) -> str:
    if text is None:
        return numbers.NOTHING
    if re.match(_FORMULA, text) and not re.match(_NUMBER, text):
        text = _TEXT + text
    return text if _SPECIAL.isdisjoint(text) else '"' + text.replace('"', '""') + '"'
