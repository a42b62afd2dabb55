"""Read traced calls of Python functions, which have the kind `CALL` in the store."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from ms_profiler.analysis.columns.slots import SLOTS
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.model.clock import Clock
from ms_profiler.store.format import FRAME_LINE_BITS, Flag, Kind

#: largest number of a process's calls that are held in memory (0.2 GB); beyond it, only the longest calls are kept
MOST: Final = 3_000_000
#: longest possible call, ns: about a year
_LONGEST: Final = 2**55
_LINES: Final = 2**FRAME_LINE_BITS
#: columns that identify a call of a process
_KEY: Final = ["thread", "start_ns", "id", "arg"]
#: tables without rows: a job may have hundreds of processes without any record, and to make a table takes 0.2 ms
_OPEN: Final = pl.DataFrame(schema=SLOTS)
_CALLS: Final = pl.DataFrame(schema=tables.CALLS)


@dataclass
class Calls:
    """The traced calls of one process.

    Attributes:
        parts: rows of `columns.slots.SLOTS`, of the kind `Kind.CALL`, for calls that ended.
        open: rows that were written while their calls ran. Most of these calls ended later, and also have a row in
            `parts`.
        least_ns: calls shorter than this are left out, ns; 0 as long as there are at most `MOST` calls.
        left_out: the number of calls that are left out.
        last_ns: the latest time of any call, ns of CLOCK_MONOTONIC_RAW.
    """

    parts: list[pl.DataFrame] = field(default_factory=list)
    open: pl.DataFrame = field(default_factory=lambda: _OPEN)
    least_ns: int = 0
    left_out: int = 0
    last_ns: int = 0

    def take(self, slots: pl.DataFrame) -> pl.DataFrame:
        """Select the records of calls from `slots`, keep them, and return them."""
        found = slots.filter(pl.col("kind") == Kind.CALL)
        if found.height:
            self.last_ns = max(self.last_ns, int(str(found["end_ns"].max())), int(str(found["start_ns"].max())))
            ended = found.filter(pl.col("end_ns") > 0)
            self.open = pl.concat([self.open, found.filter(pl.col("end_ns") == 0)])
            if self.least_ns:  # short calls are left out
                self._settle(ended)
                ended = self._long(ended)
            self.parts.append(ended)
            while sum(part.height for part in self.parts) > MOST and self.least_ns < _LONGEST:
                if not self.least_ns:
                    self._settle(pl.concat(self.parts))
                self.least_ns = max(2 * self.least_ns, 500)
                self.parts = [self._long(part) for part in self.parts]
        return found

    def _settle(self, ended: pl.DataFrame) -> None:
        """Remove ended calls from `open`. If a short call stayed there, it would seem to run on: its end is dropped."""
        self.open = self.open.join(ended, on=_KEY, how="anti", maintain_order="left") if self.open.height else self.open

    def _long(self, ended: pl.DataFrame) -> pl.DataFrame:
        # If a call runs when tracing stops, another thread writes the call's end. The end may be read before the row in
        # `open`, and then `_settle` cannot match the two. So all ends from other threads are kept.
        other = pl.col("arg") % _LINES > 0
        long_calls = ended.filter((pl.col("end_ns") - pl.col("start_ns") >= self.least_ns) | other)
        self.left_out += ended.height - long_calls.height
        return long_calls

    def table(
        self, process: int, clock: Clock, names: Callable[[pl.Series], pl.Series], window: tuple[int, int], last_ns: int
    ) -> pl.DataFrame:
        """Return the calls as `tables.CALLS`.

        Args:
            process: pid.
            clock: the clock of the run.
            names: a function that returns the row of `Recording.names` for each string id.
            window: begin and end of the run, at which calls are cut, ns of CLOCK_MONOTONIC_RAW; 0 for no bound.
            last_ns: the end to assume for calls that ran when the process ended, ns of CLOCK_MONOTONIC_RAW.
        """
        if not self.parts:
            return _CALLS
        slots = pl.concat([self.open, *self.parts])
        owner = (pl.col("arg") % _LINES).cast(pl.UInt32)
        slots = slots.with_columns(thread=pl.when(owner > 0).then(owner).otherwise("thread"))
        running = slots.filter(pl.col("end_ns") == 0)
        ended = slots.filter(pl.col("end_ns") > 0)
        # if another thread wrote the end of a call, the lowest bits of `arg` are the call's thread. Else they are 0. So
        # these bits are not compared
        mask = pl.col("arg") // _LINES
        running = running.with_columns(mask.alias("arg")).unique(_KEY, keep="first", maintain_order=True)
        known = ended.select("thread", "start_ns", "id", mask.alias("arg"))
        running = running.join(known, on=_KEY, how="anti").with_columns(
            (pl.col("arg") * _LINES).alias("arg"), end_ns=pl.lit(last_ns, pl.Int64)
        )
        # a call is written when it ends, so inner calls come before outer calls. Reverse the order: outer calls first
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
