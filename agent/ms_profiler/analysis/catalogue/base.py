"""What a table that can be asked for is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl

from ms_profiler.analysis.measures import Measures


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    kind: Any  # a type of Polars
    meaning: str


@dataclass(frozen=True)
class Table:
    """A table that can be asked for.

    Attributes:
        name: in SQL, and of the file.
        meaning: what a row is.
        columns: in their order.
        build: makes it, with these columns among others.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    build: Callable[[Measures], pl.DataFrame]

    @property
    def schema(self) -> pl.Schema:
        """Return the types of the columns by name."""
        return pl.Schema({column.name: column.kind for column in self.columns})

    def of(self, measures: Measures) -> pl.DataFrame:
        """Return the table of a run, without rows where nothing of it was recorded.

        Args:
            measures: of the run.
        """
        schema = self.schema
        return self.build(measures).select(schema.names()).cast(schema)
