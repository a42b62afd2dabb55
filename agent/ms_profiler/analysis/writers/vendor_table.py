"""Copy tables of CANN's msprof into the result unchanged: caches, memories, links, networks, the host.

The parts of a large table, which msprof splits, are joined.
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
    """One of these tables.

    Attributes:
        source: its name in msprof's output.
        name: its name in the result.
    """

    source: str
    name: str

    def path(self, measures: Measures) -> str:
        """Return the path of the file."""
        return os.path.join(layout.OUTPUT, f"{self.name}.csv")

    def applies(self, measures: Measures) -> bool:
        """Return whether msprof wrote it."""
        return not self._table(measures).is_empty()

    def write(self, measures: Measures, stream: BinaryIO) -> None:
        """Write the table."""
        csv_lines.write_frame(self._table(measures), stream)

    def _table(self, measures: Measures) -> pl.DataFrame:
        device = measures.recording.device
        return pl.DataFrame() if device is None else device.counters.get(self.source, pl.DataFrame())


WRITERS: Final = tuple(VendorTable(source, name) for source, name in COUNTER_TABLES.items())
