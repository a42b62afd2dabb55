"""TABLES/{name}.parquet: the tables of a run for other programs; docs/tables.md has their columns.

Written where `ms-profiler analyse --export parquet` asks for them, and again wherever they are already. A table without
rows has no file. The format: https://parquet.apache.org/docs/file-format/.
"""

import os
from dataclasses import dataclass
from typing import BinaryIO, Final

from ms_profiler.analysis import catalogue
from ms_profiler.analysis.measures import Measures
from ms_profiler.store import layout

FORM: Final = "parquet"


@dataclass(frozen=True)
class ParquetTable:
    """The writer of one table."""

    table: catalogue.Table

    def path(self, measures: Measures) -> str:
        """Return where it goes."""
        return os.path.join(layout.TABLES, layout.table(self.table.name))

    def applies(self, measures: Measures) -> bool:
        """Tell whether it was asked for and has rows."""
        if FORM not in measures.forms:
            return False
        return self.table.lazily(measures) is not None or not self.table.of(measures).is_empty()

    def write(self, measures: Measures, stream: BinaryIO) -> None:
        """Write the table."""
        lazy = self.table.lazily(measures)
        if lazy is None:
            self.table.of(measures).write_parquet(stream)
        else:
            lazy.sink_parquet(stream)


WRITERS: Final = tuple(ParquetTable(table) for table in catalogue.TABLES)
