"""host_metrics.csv and host_threads.csv: counters of the operating system for processes, the machine and threads.

A row covers the time between two samples, and its numbers are means over that time. In a run with more than `ROWS`
samples, a row covers the time of several samples.
"""

import os
from dataclasses import dataclass
from typing import BinaryIO, Final

import polars as pl

from ms_profiler.analysis.metrics import host_load
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.writers import csv_lines, numbers
from ms_profiler.store import host_metrics, layout

#: largest number of rows of a process: the samples of a quarter of an hour at the usual rate
ROWS: Final = 10_000


@dataclass(frozen=True)
class HostTable:
    """The writer of one of the two CSV files.

    Attributes:
        name: the name of the file.
        threads: whether it is the file of the threads.
    """

    name: str
    threads: bool

    def path(self, measures: Measures) -> str:
        """Return the path of the file, relative to the result directory."""
        return os.path.join(layout.OUTPUT, self.name)

    def _rows(self, measures: Measures) -> pl.DataFrame:
        of_thread = pl.col("native_tid") != 0
        known = measures.recording.host.filter(of_thread if self.threads else ~of_thread)
        if measures.chosen is None:
            return known
        during = measures.steps.table
        return known.filter(pl.col("end_ns") > during["start_ns"][0], pl.col("start_ns") < during["end_ns"][-1])

    def applies(self, measures: Measures) -> bool:
        """Return whether the run has counters for this file."""
        return not self._rows(measures).is_empty()

    def write(self, measures: Measures, stream: BinaryIO) -> None:
        """Write the table."""
        known = host_load.averaged(self._rows(measures), measures.recording, ROWS)
        titles = [pl.format("{} ({})", "name", "unit").alias("title")]
        known = known.with_columns(titles)
        keys = ["process", *(["native_tid", "thread_name"] if self.threads else []), "start_ns", "end_ns"]
        wide = known.pivot("title", index=keys, values="value", maintain_order=True).sort(
            "process", "start_ns", *keys[1:-2]
        )
        order = [f"{metric.name} ({metric.unit})" for metric in host_metrics.METRICS.values()]
        columns = sorted(wide.columns[len(keys) :], key=lambda name: order.index(name) if name in order else len(order))
        table = wide.select(
            pl.col("process").alias("Process Id"),
            *(
                [pl.col("native_tid").alias("Thread Id"), pl.col("thread_name").alias("Thread Name")]
                if self.threads
                else []
            ),
            numbers.moment("start_ns").alias("Start(us)"),
            numbers.moment("end_ns").alias("End(us)"),
            *columns,
        )
        csv_lines.write_frame(table, stream, float_precision=4)


WRITERS: Final = (HostTable(layout.HOST_METRICS, False), HostTable(layout.HOST_THREADS, True))
