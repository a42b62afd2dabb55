"""The parts of a row of text, as columns."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import polars as pl


class Texts:
    """Texts, which rows refer to by their index."""

    def __init__(self, texts: Iterable[str | None]) -> None:
        """Keep the texts; None stands for no text."""
        self.series = pl.Series(texts, dtype=pl.String)

    @cached_property
    def list(self) -> list[str | None]:
        """Return them as a list."""
        return self.series.to_list()

    def at(self, index: pl.Series) -> "Choice":
        """Return the part of a row that is one of these texts."""
        # if no value was replaced, Polars keeps the old type
        return Choice(self, index.cast(pl.UInt32))


@dataclass(frozen=True)
class Choice:
    """The part of a row that is one of several texts; empty if the index is null."""

    texts: Texts
    index: pl.Series


def distinct(values: pl.Series, texts: Callable[[pl.Series], Texts] = Texts) -> Choice:
    """Return a column of texts as a part of a row; each different text is stored once.

    Args:
        values: texts; null stands for nothing.
        texts: turns the distinct values into texts.
    """
    different = values.drop_nulls().unique(maintain_order=True)
    rows = pl.int_range(len(different), dtype=pl.UInt32, eager=True)
    return texts(different).at(values.replace_strict(different, rows, default=None, return_dtype=pl.UInt32))


@dataclass(frozen=True)
class Integer:
    """The part of a row that is a whole number; empty if it is null."""

    values: pl.Series


@dataclass(frozen=True)
class Microseconds:
    """The part of a row that is microseconds with three decimals; empty if it is null.

    Attributes:
        values: nanoseconds.
    """

    values: pl.Series


#: a part of a row: a constant text, or a text that is made of a column
Part: TypeAlias = str | Choice | Integer | Microseconds
