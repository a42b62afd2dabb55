"""Write tables of many rows as lines of CSV; Polars writes tables of few rows."""

from collections.abc import Mapping, Sequence
from typing import BinaryIO

import polars as pl

from ms_profiler.analysis.columns import COLUMNS, Choice, Part, Texts
from ms_profiler.analysis.writers import numbers

#: characters that make quotes necessary
_SPECIAL = frozenset(',"\r\n')


class Cells:
    """Texts as cells of a table, in quotes where they have to be."""

    def __init__(self, texts: pl.Series) -> None:
        """Prepare the texts; null becomes N/A."""
        self._nothing = len(texts)
        self._texts = Texts([*map(_cell, texts), numbers.NOTHING])

    def at(self, index: pl.Series) -> Choice:
        """Return the cell of each row; a row without a text has N/A."""
        return self._texts.at(index.fill_null(self._nothing))


def write(stream: BinaryIO, count: int, columns: Mapping[str, Sequence[Part]]) -> None:
    """Write the rows of a table.

    Args:
        stream: where to.
        count: number of rows.
        columns: the parts of a cell, by column.
    """
    parts = [part for cell in columns.values() for part in (*cell, ",")]
    COLUMNS.write_rows(stream, count, [*parts[:-1], "\n"])


def _cell(text: str | None) -> str:
    if text is None:
        return numbers.NOTHING
    return text if _SPECIAL.isdisjoint(text) else '"' + text.replace('"', '""') + '"'
