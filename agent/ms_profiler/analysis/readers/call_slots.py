"""Calls of Python functions that were traced, see `store.format.Kind.CALL`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from ms_profiler.analysis.columns.slots import SLOTS
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.model.clock import Clock
from ms_profiler.store.format import FRAME_LINE_BITS, Flag, Kind

#: largest number of calls of a process in memory (0.2 GB); beyond it, the longest calls remain
MOST: Final = 3_000_000
_LINES: Final = 2**FRAME_LINE_BITS


@dataclass
class Calls:
    """The traced calls of one process.

    Attributes:
        parts: rows of `columns.slots.SLOTS`, of this kind.
        least_ns: calls that are shorter are left out, because there are too many.
        left_out: the number of events that are left out.
        last_ns: RAW, of the last one.
    """

    parts: list[pl.DataFrame] = field(default_factory=list)
    least_ns: int = 0
    left_out: int = 0
    last_ns: int = 0

    def take(self, slots: pl.DataFrame) -> pl.DataFrame:
        """Note the slots of this kind, and return them."""
        found = slots.filter(pl.col("kind") == Kind.CALL)
        if found.height:
            self.last_ns = max(self.last_ns, int(str(found["end_ns"].max())), int(str(found["start_ns"].max())))
            self.parts.append(self._long(found))
            while sum(part.height for part in self.parts) > MOST:
                self.least_ns = max(2 * self.least_ns, 500)
                self.parts = [self._long(part) for part in self.parts]
        return found

    def _long(self, found: pl.DataFrame) -> pl.DataFrame:
        if not self.least_ns:
            return found
        long_calls = found.filter((pl.col("end_ns") - pl.col("start_ns") >= self.least_ns) | (pl.col("end_ns") == 0))
        self.left_out += found.height - long_calls.height
        return long_calls

    def table(
        self, process: int, clock: Clock, names: Callable[[pl.Series], pl.Series], window: tuple[int, int], last_ns: int
    ) -> pl.DataFrame:
        """Return `tables.CALLS`.

        Args:
            process: pid.
            clock: the clock of the run.
            names: returns the row of `Recording.names` for each id.
            window: RAW begin and end of the run, 0 where it has no bound: calls are cut there.
            last_ns: the end of calls that ran when the process ended, RAW.
        """
        slots = pl.concat([pl.DataFrame(schema=SLOTS), *self.parts])
        owner = (pl.col("arg") % _LINES).cast(pl.UInt32)
        slots = slots.with_columns(thread=pl.when(owner > 0).then(owner).otherwise("thread"))
        running = slots.filter(pl.col("end_ns") == 0)
        ended = slots.filter(pl.col("end_ns") > 0)
        key = ["thread", "start_ns", "id", "arg"]
        # a call that another thread ended has that thread's number
        mask = pl.col("arg") // _LINES
        running = running.with_columns(mask.alias("arg")).unique(key, keep="first", maintain_order=True)
        known = ended.select("thread", "start_ns", "id", mask.alias("arg"))
        running = running.join(known, on=key, how="anti").with_columns(
            (pl.col("arg") * _LINES).alias("arg"), end_ns=pl.lit(last_ns, pl.Int64)
        )
        # calls are written when they end: of calls with the same times, the outer one is the later one
        rows = pl.concat([ended.with_columns(unfinished=False), running.with_columns(unfinished=True)]).reverse()
        first, last = window
        if first:
            rows = rows.filter(pl.col("end_ns") > first).with_columns(pl.col("start_ns").clip(lower_bound=first))
        if last:
            rows = rows.filter(pl.col("start_ns") < last).with_columns(pl.col("end_ns").clip(upper_bound=last))
        rows = rows.filter(pl.col("end_ns") >= pl.col("start_ns"))
        file = rows.select((pl.col("arg") // _LINES**2).cast(pl.UInt32).alias("file"))["file"]
        return rows.select(
            pl.lit(process, pl.UInt32).alias("process"),
            "thread",
            names(rows["id"]).alias("name"),
            names(file).alias("file"),
            (pl.col("arg") // _LINES % _LINES).cast(pl.UInt32).alias("first_line"),
            "flags",
            "unfinished",
            (pl.col("flags") & Flag.RESUMED != 0).alias("resumed"),
            clock.epoch(rows["start_ns"]).alias("start_ns"),
            clock.epoch(rows["end_ns"]).alias("end_ns"),
        ).select(tables.CALLS.names())
