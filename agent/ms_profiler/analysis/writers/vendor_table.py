"""Tables of CANN that stand in a result as msprof writes them: caches, memories, links, networks, the host.

Parts of a table, of which msprof makes several where it is large, are put together.
"""

import os
from dataclasses import dataclass
from typing import BinaryIO, Final

import polars as pl

from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.model.tables import COUNTER_TABLES
from ms_profiler.store import layout


@dataclass(frozen=True)
class VendorTable:
    """One of them.

    Attributes:
        source: as msprof calls it.
        name: as it is called here.
    """

    source: str
    name: str

    def path(self, measures: Measures) -> str:
        """Return where it goes."""
        return os.path.join(layout.OUTPUT, f"{self.name}.csv")

    def applies(self, measures: Measures) -> bool:
        """Tell whether msprof wrote it."""
        return not self._table(measures).is_empty()

    def write(self, measures: Measures, stream: BinaryIO) -> None:
        """Write the table, its cells as they are."""
        self._table(measures).write_csv(stream)

    def _table(self, measures: Measures) -> pl.DataFrame:
        device = measures.recording.device
        return pl.DataFrame() if device is None else device.counters.get(self.source, pl.DataFrame())


WRITERS: Final = tuple(VendorTable(source, name) for source, name in COUNTER_TABLES.items())
