"""Read samples of the Python stacks of threads, which have the kinds `FRAME` and `SAMPLED` in the store."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from ms_profiler.analysis.model import tables
from ms_profiler.analysis.model.clock import Clock
from ms_profiler.analysis.readers.call_slots import Calls
from ms_profiler.store.format import FRAME_LINE_BITS, Kind

_LOW: Final = 2**32
_LINES: Final = 2**FRAME_LINE_BITS
_NO_FRAMES: Final = pl.DataFrame(schema=tables.FRAMES)
_NO_SAMPLES: Final = pl.DataFrame(schema=tables.SAMPLES)


@dataclass
class Stacks:
    """The samples of one process.

    Attributes:
        parts: rows of `columns.slots.SLOTS`, of the kinds `Kind.FRAME` and `Kind.SAMPLED`.
        calls: the traced calls of Python functions.
    """

    parts: list[pl.DataFrame] = field(default_factory=list)
    calls: Calls = field(default_factory=Calls)

    def take(self, slots: pl.DataFrame) -> int:
        """Keep the samples, their frames and the traced calls among the slots, and return how many were kept.

        Args:
            slots: rows of `columns.slots.SLOTS`, of any kind.
        """
        found = slots.filter(pl.col("kind").is_between(Kind.FRAME, Kind.SAMPLED))
        if found.height:
            self.parts.append(found)
        return found.height + self.calls.take(slots).height

    @property
    def threads(self) -> set[int]:
        """Return the numbers of ms-profiler's own threads, which wrote the samples."""
        return {number for part in self.parts for number in part["thread"].unique()}

    def frames(self, process: int, names: Callable[[pl.Series], pl.Series]) -> pl.DataFrame:
        """Return the frames of the stacks as `tables.FRAMES`.

        Args:
            process: pid.
            names: a function that returns the row of `Recording.names` for each string id.
        """
        if not self.parts:
            return _NO_FRAMES
        slots = self._of(Kind.FRAME)
        place, thread = pl.col("arg"), pl.col("caller") == 0
        both = pl.col("end_ns").reinterpret(signed=False)
        rows = slots.with_columns(
            node=(both % _LOW).cast(pl.UInt32), caller=(both // _LOW).cast(pl.UInt32)
        ).with_columns(file=pl.when(thread).then(0).otherwise(place // _LINES**2).cast(pl.UInt32))
        return rows.select(
            pl.lit(process, pl.UInt32).alias("process"),
            "node",
            "caller",
            names(rows["id"]).alias("name"),
            names(rows["file"]).alias("file"),
            pl.when(thread).then(0).otherwise(place // _LINES % _LINES).cast(pl.UInt32).alias("first_line"),
            pl.when(thread).then(0).otherwise(place % _LINES).cast(pl.UInt32).alias("line"),
            pl.when(thread).then(place).otherwise(0).cast(pl.UInt64).alias("native_tid"),
        ).unique("node", keep="last", maintain_order=True)

    def samples(self, process: int, clock: Clock, cut: Callable[[pl.DataFrame], pl.DataFrame]) -> pl.DataFrame:
        """Return the samples as `tables.SAMPLES`.

        Args:
            process: pid.
            clock: the clock of the run.
            cut: a function that drops the slots of other runs, which may share the store.
        """
        if not self.parts:
            return _NO_SAMPLES
        slots = cut(self._of(Kind.SAMPLED))
        return slots.select(
            pl.lit(process, pl.UInt32).alias("process"),
            (pl.col("arg") % _LOW).cast(pl.UInt32).alias("node"),
            clock.epoch(slots["start_ns"]).alias("start_ns"),
            clock.epoch(slots["end_ns"]).alias("end_ns"),
            (pl.col("arg") // _LOW).cast(pl.Int64).alias("count"),
            pl.col("id").alias("late_us"),
        )

    def _of(self, kind: Kind) -> pl.DataFrame:
        return pl.concat(self.parts).filter(pl.col("kind") == kind)
