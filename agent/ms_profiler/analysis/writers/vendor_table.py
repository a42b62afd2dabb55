"""Copy tables of CANN's msprof into the result unchanged: tables about caches, memories, links, networks and the host.

msprof splits a large table into several files; the result has one file.
"""

import os
from dataclasses import dataclass
from typing import BinaryIO, Final

import polars as pl

from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.model.tables import COUNTER_TABLES
from ms_profiler.analysis.writers import csv_lines
from ms_profiler.store import layout


@dataclass(frozen=True)
class VendorTable:
    """The writer of one table of msprof.

    Attributes:
        source: the table's name in msprof's output.
        name: the table's name in the result.
    """

    source: str
    name: str

    def path(self, measures: Measures) -> str:
        """Return the path of the file, relative to the result directory."""
        return os.path.join(layout.OUTPUT, f"{self.name}.csv")

    def applies(self, measures: Measures) -> bool:
        """Return whether msprof wrote the table."""
        return not self._table(measures).is_empty()

    def write(self, measures: Measures, stream: BinaryIO) -> None:
        """Write the table."""
        csv_lines.write_frame(self._table(measures), stream)

    def _table(self, measures: Measures) -> pl.DataFrame:
        device = measures.recording.device
        return pl.DataFrame() if device is None else device.counters.get(self.source, pl.DataFrame())


WRITERS: Final = tuple(VendorTable(source, name) for source, name in COUNTER_TABLES.items())
