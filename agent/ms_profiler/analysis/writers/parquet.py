"""TABLES/{name}.parquet: the tables of a run for other programs. docs/tables.md describes their columns.

`ms-profiler analyse --export parquet` writes these files. Later analyses renew the files that exist. A table without
rows has no file. The format: https://parquet.apache.org/docs/file-format/.
"""

import os
from dataclasses import dataclass
from typing import BinaryIO, Final

import polars as pl

from ms_profiler.analysis import catalogue
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.store import layout

FORM: Final = "parquet"


@dataclass
class ParquetTable:
    """The writer of one table. `applies` already makes the table, to know whether it has rows.

    Attributes:
        table: the table.
        made: the measures of a run and the table that `applies` made from them; None after `write`.
    """

    table: catalogue.Table
    made: tuple[Measures, pl.DataFrame] | None = None

    def path(self, measures: Measures) -> str:
        """Return the path of the file, relative to the result directory."""
        return os.path.join(layout.TABLES, layout.table(self.table.name))

    def applies(self, measures: Measures) -> bool:
        """Return whether the table was requested and has rows."""
        if FORM not in measures.forms:
            return False
        if self.table.lazily(measures) is not None:
            return True
        table = self.table.of(measures)
        self.made = None if table.is_empty() else (measures, table)
        return self.made is not None

    def write(self, measures: Measures, stream: BinaryIO) -> None:
        """Write the table."""
        lazy = self.table.lazily(measures)
        if lazy is not None:
            lazy.sink_parquet(stream)
            return
        made, self.made = self.made, None
        table = made[1] if made is not None and made[0] is measures else self.table.of(measures)
        table.write_parquet(stream)


WRITERS: Final = tuple(ParquetTable(table) for table in catalogue.TABLES)
