"""Read the operating system's counters of a process and its machine, which have the kind `METRIC` in the store."""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from ms_profiler.analysis.columns.slots import within
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.model.clock import Clock
from ms_profiler.store.format import Kind

_LOW: Final = 2**32
_NONE: Final = pl.DataFrame(schema=tables.METRICS)


@dataclass
class Metrics:
    """The system's counters in the records of one process.

    Attributes:
        parts: rows of `columns.slots.SLOTS`, of the kind `Kind.METRIC`.
    """

    parts: list[pl.DataFrame] = field(default_factory=list)

    def take(self, slots: pl.DataFrame) -> int:
        """Read the counters of the system from the slots, and return their number.

        Args:
            slots: rows of `columns.slots.SLOTS`, of any kind.
        """
        found = slots.filter(pl.col("kind") == Kind.METRIC)
        if found.height:
            self.parts.append(found)
        return found.height

    @property
    def threads(self) -> set[int]:
        """Return the numbers of ms-profiler's own threads, which wrote these slots."""
        return {number for part in self.parts for number in part["thread"].unique()}

    def table(
        self, process: int, clock: Clock, names: Callable[[pl.Series], pl.Series], between: tuple[int, int]
    ) -> pl.DataFrame:
        """Return the counters as `tables.METRICS`.

        Args:
            process: pid.
            clock: the clock of the run.
            names: a function that returns the row of `Recording.names` for each string id.
            between: begin and end of the run, ns of CLOCK_MONOTONIC_RAW; 0 where the run has no such bound.
        """
        if not self.parts:
            return _NONE
        slots = within(pl.concat(self.parts), between)
        slots = slots.with_columns(pl.col("end_ns").reinterpret(signed=False))
        labels = (slots["end_ns"] // _LOW).cast(pl.UInt32)
        return slots.select(
            pl.lit(process, pl.UInt32).alias("process"),
            names(slots["id"]).alias("name"),
            pl.col("end_ns").mod(_LOW).cast(pl.UInt64).alias("native_tid"),
            names(labels).alias("thread_name"),
            clock.epoch(slots["start_ns"]).alias("time_ns"),
            pl.col("arg").cast(pl.Float64).alias("value"),
        ).select(tables.METRICS.names())


def doubles(args: pl.Series) -> pl.Series:
    """Return the values of counters as doubles.

    Args:
        args: the values as the store holds them: UInt64 with the bits of a double.
    """
    count = len(args)
    return pl.Series(struct.unpack(f"={count}d", struct.pack(f"={count}Q", *args)), dtype=pl.Float64)
