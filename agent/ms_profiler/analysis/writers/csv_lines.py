"""Tables of many rows as lines of CSV; those of few are written by Polars."""

from collections.abc import Mapping, Sequence
from typing import BinaryIO

import polars as pl

from ms_profiler.analysis.columns import COLUMNS, Choice, Part, Texts
from ms_profiler.analysis.writers import numbers

#: what has to stand in quotes
_SPECIAL = frozenset(',"\r\n')


class Cells:
    """Texts as cells of a table, in quotes where they have to be."""

    def __init__(self, texts: pl.Series) -> None:
        """Keep the texts; null stands for nothing."""
        self._nothing = len(texts)
        self._texts = Texts([*map(_cell, texts), numbers.NOTHING])

    def at(self, index: pl.Series) -> Choice:
        """Return the cell of each row; what has no text stands for nothing."""
        return self._texts.at(index.fill_null(self._nothing))


def write(stream: BinaryIO, count: int, columns: Mapping[str, Sequence[Part]]) -> None:
    """Write the rows of a table.

    Args:
        stream: where to.
        count: of rows.
        columns: what makes up the cell of each column.
    """
    parts = [part for cell in columns.values() for part in (*cell, ",")]
    COLUMNS.write_rows(stream, count, [*parts[:-1], "\n"])


def _cell(text: str | None) -> str:
    if text is None:
        return numbers.NOTHING
    return text if _SPECIAL.isdisjoint(text) else '"' + text.replace('"', '""') + '"'
