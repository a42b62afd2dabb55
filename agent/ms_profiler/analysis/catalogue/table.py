"""The classes that describe a table for `ms-profiler sql`, and its columns."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from ms_profiler.analysis.metrics.measures import Measures


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, its type, and the meaning of its values."""

    name: str
    kind: Any  # the column's type in Polars
    meaning: str


@dataclass(frozen=True)
class Table:
    """A table that queries can use.

    Attributes:
        name: the name of the table in SQL; its Parquet file has the same name.
        meaning: the meaning of a row.
        columns: the columns, in the order of the table.
        build: a function that builds the table. Its result may have further columns, which `of` removes.
        parts: a function that yields the table part by part, for a run that is too large for memory. None if the table
            fits into memory even for the largest run.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    build: Callable[[Measures], pl.DataFrame]
    parts: Callable[[Measures], Iterator[pl.DataFrame]] | None = None

    @property
    def schema(self) -> pl.Schema:
        """Return the types of the columns by name."""
        return pl.Schema({column.name: column.kind for column in self.columns})

    def of(self, measures: Measures) -> pl.DataFrame:
        """Return the table of a run. It has no rows if nothing was recorded for the table.

        Args:
            measures: the measures of the run.
        """
        return self._cast(self.build(measures))

    def lazily(self, measures: Measures) -> pl.LazyFrame | None:
        """Return the table of a run that is too large for memory, as a lazy frame that builds it part by part.

        Args:
            measures: the measures of the run.

        Returns:
            The lazy frame; None if the table fits into memory.
        """
        make = self.parts
        if make is None or measures.recording.again is None:
            return None

        def source(
            columns: list[str] | None, predicate: pl.Expr | None, most: int | None, _: int | None
        ) -> Iterator[pl.DataFrame]:
            for table in map(self._cast, make(measures)):
                part = table if most is None else table.head(most)
                most = None if most is None else most - part.height
                found = part if predicate is None else part.filter(predicate)
                yield found if columns is None else found.select(columns)
                if most == 0:
                    return

        return register_io_source(source, schema=self.schema)

    def _cast(self, table: pl.DataFrame) -> pl.DataFrame:
        return table.select(self.schema.names()).cast(self.schema)
