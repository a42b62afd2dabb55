"""Describe rows of text by their parts. A part is a constant text, or a column with a value for each row."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import polars as pl


class Texts:
    """A list of texts; a row refers to a text by its index in the list."""

    def __init__(self, texts: Iterable[str | None]) -> None:
        """Store the texts; None stands for an absent text."""
        self.series = pl.Series(texts, dtype=pl.String)

    @cached_property
    def list(self) -> list[str | None]:
        """Return the texts as a list."""
        return self.series.to_list()

    def at(self, index: pl.Series) -> "Choice":
        """Return the part of a row that is one of these texts, chosen by its index."""
        # cast, because `replace_strict` of Polars keeps the old type if it replaced no value
        return Choice(self, index.cast(pl.UInt32))


@dataclass(frozen=True)
class Choice:
    """The part of a row that is one of several texts; empty if the index is null."""

    texts: Texts
    index: pl.Series


def distinct(values: pl.Series, texts: Callable[[pl.Series], Texts] = Texts) -> Choice:
    """Turn a column of values into a part of a row. Each distinct text is stored once, to save memory.

    Args:
        values: the column; null becomes an empty part.
        texts: a function that turns the distinct values into the texts of the part.
    """
    different = values.drop_nulls().unique(maintain_order=True)
    rows = pl.int_range(len(different), dtype=pl.UInt32, eager=True)
    return texts(different).at(values.replace_strict(different, rows, default=None, return_dtype=pl.UInt32))


@dataclass(frozen=True)
class Integer:
    """The part of a row that is a whole number; empty if the number is null."""

    values: pl.Series


@dataclass(frozen=True)
class Microseconds:
    """The part of a row that is a time in microseconds with three decimals; empty if the time is null.

    Attributes:
        values: the times in nanoseconds.
    """

    values: pl.Series


#: a part of a row: a constant text, or a text computed from a column
Part: TypeAlias = str | Choice | Integer | Microseconds
