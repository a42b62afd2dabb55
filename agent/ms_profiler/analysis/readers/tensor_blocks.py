"""Read the blocks of host memory that a framework's allocator held, and counters of this memory.

Blocks have the kind `BLOCK` in the store.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from ms_profiler.analysis.columns.slots import SLOTS, within
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.model.clock import Clock
from ms_profiler.store.format import BLOCK_BITS, BLOCK_RELEASED, FRAME_LINE_BITS, Kind
from ms_profiler.store.names import TENSORS, TENSORS_PEAK

#: largest number of a process's records in memory (0.2 GB); beyond it, only the records of the largest blocks are kept
MOST: Final = 3_000_000
#: The store has the size of a peak, but not its time. If a block's record shows memory in use >= NEAR * peak, the peak
#: gets the time of that record.
NEAR: Final = 0.9
#: approximate number of points of a process's curve in timelines. Time is cut into slices; the largest and the last
#: point of each slice are shown
POINTS: Final = 10_000
_HIGH: Final = 2**BLOCK_BITS
_LOW: Final = 2**32
_BOTH: Final = pl.col("end_ns").reinterpret(signed=False)
_HIGHEST: Final = 2**62
_LINES: Final = 2**FRAME_LINE_BITS
_NO_BLOCKS: Final = pl.DataFrame(schema=tables.BLOCKS)
_NO_PLACES: Final = pl.DataFrame(schema=tables.BLOCK_PLACES)


@dataclass
class Blocks:
    """The records of blocks of one process.

    Attributes:
        parts: rows of `columns.slots.SLOTS`, of the kind `Kind.BLOCK`.
        places: rows of `columns.slots.SLOTS`, of the kind `Kind.BLOCK_PLACE`.
        least: smallest size of the blocks that are kept, bytes; 0 at first, and larger if there are more than `MOST`
            records.
    """

    parts: list[pl.DataFrame] = field(default_factory=list)
    places: list[pl.DataFrame] = field(default_factory=list)
    least: int = 0

    def take(self, slots: pl.DataFrame) -> int:
        """Keep the records of blocks, and of the code that allocated them, and return their number.

        Args:
            slots: rows of `columns.slots.SLOTS`, of any kind.
        """
        places = slots.filter(pl.col("kind") == Kind.BLOCK_PLACE)
        if places.height:
            self.places.append(places)
        # no allocator holds 2^62 bytes: a slot with so many is damaged
        found = slots.filter(pl.col("kind") == Kind.BLOCK, pl.col("arg") < _HIGHEST)
        if found.height:
            self.parts.append(found.filter(_size() >= self.least))
            while sum(part.height for part in self.parts) > MOST:
                self.least = max(2 * self.least, 4096)
                self.parts = [part.filter(_size() >= self.least) for part in self.parts]
        return found.height + places.height

    def tables(
        self, process: int, clock: Clock, names: Callable[[pl.Series], pl.Series], between: tuple[int, int]
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the blocks as `tables.BLOCKS`, and the code that allocated them as `tables.BLOCK_PLACES`.

        Args:
            process: pid.
            clock: the clock of the run.
            names: a function that returns the row of `Recording.names` for each string id.
            between: begin and end of the run, ns of CLOCK_MONOTONIC_RAW; 0 where the run has no such bound.
        """
        if not self.parts and not self.places:
            return _NO_BLOCKS, _NO_PLACES
        slots = pl.concat([pl.DataFrame(schema=SLOTS), *self.places])
        file = slots.select((pl.col("arg") // _LINES).cast(pl.UInt32, strict=False).fill_null(0).alias("file"))["file"]
        places = slots.select(
            pl.lit(process, pl.UInt32).alias("process"),
            (_BOTH % _HIGH).alias("address"),
            clock.epoch(slots["start_ns"]).alias("allocated_ns"),
            (_BOTH // _HIGH).alias("depth"),
            names(slots["id"]).alias("function"),
            names(file).alias("file"),
            (pl.col("arg") % _LINES).cast(pl.Int64).alias("line"),
        ).cast(tables.BLOCK_PLACES)
        return self._blocks(process, clock, between), places

    def _blocks(self, process: int, clock: Clock, between: tuple[int, int]) -> pl.DataFrame:
        """Return the blocks as `tables.BLOCKS`.

        If the release of a block was not recorded, the block ends when another block at its address is allocated.
        """
        slots = within(pl.concat([pl.DataFrame(schema=SLOTS), *self.parts]), between)
        events = slots.select(
            "thread",
            (_BOTH % _HIGH).alias("address"),
            _size().alias("size"),
            clock.epoch(slots["start_ns"]).alias("time_ns"),
            pl.col("arg").cast(pl.Int64).alias("allocated"),
            (pl.col("flags") == BLOCK_RELEASED).alias("released"),
        ).sort("address", "time_ns", maintain_order=True)
        same = pl.col("address") == pl.col("address").shift(-1)
        follows = same & pl.col("released").shift(-1)
        paired = events.with_columns(
            ends=pl.when(same).then(pl.col("time_ns").shift(-1)),
            after=pl.when(follows).then(pl.col("allocated").shift(-1)),
            first=(pl.col("address") != pl.col("address").shift(1)).fill_null(True),
        )
        taken = paired.filter(~pl.col("released")).select(
            pl.lit(process, pl.UInt32).alias("process"),
            "thread",
            "address",
            "size",
            pl.col("time_ns").alias("allocated_ns"),
            pl.col("ends").alias("released_ns"),
            pl.col("allocated").alias("allocation_allocated"),
            pl.col("after").alias("release_allocated"),
        )
        older = paired.filter("released", "first").select(
            pl.lit(process, pl.UInt32).alias("process"),
            pl.lit(tables.UNKNOWN_THREAD, pl.UInt32).alias("thread"),
            "address",
            "size",
            pl.lit(None, pl.Int64).alias("allocated_ns"),
            pl.col("time_ns").alias("released_ns"),
            pl.lit(None, pl.Int64).alias("allocation_allocated"),
            pl.col("allocated").alias("release_allocated"),
        )
        return pl.concat([taken, older]).cast(tables.BLOCKS).sort(pl.coalesce("allocated_ns", "released_ns"))


def _size() -> pl.Expr:
    size: pl.Expr = pl.col("id").cast(pl.Int64) + (_BOTH // _HIGH).cast(pl.Int64) * _LOW
    return size


def attach(recording: tables.Recording) -> None:
    """Compute the curve of a recording's memory for tensors, from its blocks and memory counters.

    The curve becomes `recording.tensors`, and replaces the memory counters.

    A value of the counter `TENSORS_PEAK` is the peak of the memory in use since the previous value. If the record of a
    block shows nearly as much memory in use (`NEAR`), the peak gets the time of this record. Otherwise the time of the
    peak is unknown, and the peak gets the time at which the counter was read: the end of the step.

    Args:
        recording: the recording, which is changed in place.
    """
    rows = {name: (recording.names == name).arg_true() for name in (TENSORS, TENSORS_PEAK)}
    counters = recording.counters
    counted = {name: counters.filter(pl.col("name").is_in(found.implode())) for name, found in rows.items()}
    if recording.blocks.is_empty() and counted[TENSORS].is_empty():
        return
    parts = []
    for process in pl.concat([recording.blocks["process"], counters["process"]]).unique().sort():
        own = pl.col("process") == process
        blocks = recording.blocks.filter(own)
        at_blocks = pl.concat(
            [
                blocks.select(time_ns="allocated_ns", allocated="allocation_allocated"),
                blocks.select(time_ns="released_ns", allocated="release_allocated"),
            ]
        )
        at_blocks = at_blocks.drop_nulls().sort("time_ns", maintain_order=True)
        peaks = counted[TENSORS_PEAK].filter(own)
        known = pl.concat([at_blocks, _timed(peaks, at_blocks), _values(counted[TENSORS].filter(own))])
        parts.append(
            known.sort("time_ns", maintain_order=True).with_columns(pl.lit(process, pl.UInt32).alias("process"))
        )
    held = pl.concat(parts).with_columns(reserved=None, active=None)
    recording.tensors = held.select(tables.MEMORY.names()).cast(tables.MEMORY)
    others = counters.filter(~pl.col("name").is_in(pl.concat(list(rows.values())).implode()))
    lane = counted[TENSORS].group_by("process").agg(pl.col("thread", "name").first())
    drawn = _thinned(recording.tensors).join(lane, on="process").select(tables.COUNTERS.names())
    recording.counters = pl.concat([others, drawn.cast(tables.COUNTERS)]).sort("process", "name", "time_ns")


def _values(counters: pl.DataFrame) -> pl.DataFrame:
    counted = pl.col("value").cast(pl.Int64, strict=False)  # not strict, because a damaged record may have any number
    return counters.select("time_ns", allocated=counted).drop_nulls()


def _timed(peaks: pl.DataFrame, at_blocks: pl.DataFrame) -> pl.DataFrame:
    """Return the peaks with their times; a peak of unknown time gets the time at which the counter was read.

    Args:
        peaks: the values of the counter `TENSORS_PEAK`: the peak since the previous value, and the time of reading.
        at_blocks: the memory in use at each record of a block, sorted by time.
    """
    if at_blocks.is_empty():
        return _values(peaks)
    place = peaks["time_ns"].search_sorted(at_blocks["time_ns"])
    highest = (
        at_blocks.with_columns(place=place)
        .group_by("place")
        .agg(pl.col("time_ns").get(pl.col("allocated").arg_max()).alias("moment"), pl.col("allocated").max())
    )
    known = _values(peaks).with_row_index("place").join(highest, on="place", how="left", maintain_order="left")
    near = (pl.col("allocated_right") >= NEAR * pl.col("allocated")).fill_null(False)
    return known.select(pl.when(near).then("moment").otherwise("time_ns").alias("time_ns"), "allocated")


def _thinned(held: pl.DataFrame) -> pl.DataFrame:
    """Return about `POINTS` points of each process's curve: `process`, `time_ns`, `value`."""
    first, last = pl.col("time_ns").first().over("process"), pl.col("time_ns").last().over("process")
    part = (pl.col("time_ns") - first) * (POINTS // 2) // (last - first).clip(lower_bound=1)
    slices = held.with_columns(part=part).group_by("process", "part", maintain_order=True)
    most = slices.agg(pl.col("time_ns").get(pl.col("allocated").arg_max()), value=pl.col("allocated").max())
    end = slices.agg(pl.col("time_ns").last(), value=pl.col("allocated").last())
    return pl.concat([most, end]).unique().sort("process", "time_ns").select("process", "time_ns", "value")
