"""Segments to columns: the slots of a store, a few megabytes at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import polars as pl

from ms_profiler.analysis.columns import COLUMNS
from ms_profiler.analysis.columns.base import NO_THREAD
from ms_profiler.store import format as fmt
from ms_profiler.store.format import Kind
from ms_profiler.store.reader import ProcessStore, ReadCounts

#: bytes decoded at once
BATCH: Final = 8 << 20

#: offset of the kind inside a slot
_KIND: Final = 28
#: put before a segment whose own THREAD slot is missing
_NO_THREAD: Final = fmt.SLOT.pack(0, 0, NO_THREAD, 0, Kind.THREAD, 0, 0, 0)


@dataclass(frozen=True)
class Batch:
    """Segments that are decoded together.

    Attributes:
        table: `columns.base.SLOTS`.
        parts: path and number of slots of each segment, in order.
    """

    table: pl.DataFrame
    parts: list[tuple[str, int]]

    def extents(self) -> Iterator[tuple[str, int, int]]:
        """Yield of each segment its path, and when the first and the last thing in it began."""
        first = 0
        for path, count in self.parts:
            starts = self.table["start_ns"].slice(first, count)
            least, most = starts.min(), starts.max()
            if isinstance(least, int) and isinstance(most, int):
                yield path, least, most
            first += count


def batches(store: ProcessStore, counts: ReadCounts, files: list[str] | None = None) -> Iterator[Batch]:
    """Yield the slots of a process; the thread of a slot is that of the last THREAD slot before it.

    Args:
        store: the process.
        counts: is told about files that cannot be read.
        files: segments; all by default.
    """
    pending: list[bytes | memoryview] = []
    parts: list[tuple[str, int]] = []
    size = 0
    for path, segment in store.segments(counts, files):
        if not segment.slots:
            continue
        known = segment.slots[_KIND] == Kind.THREAD
        pending += [segment.slots] if known else [_NO_THREAD, segment.slots]
        parts.append((path, len(segment.slots) // fmt.SLOT_SIZE + (not known)))
        size += len(segment.slots)
        if size >= BATCH:
            yield Batch(COLUMNS.slots(b"".join(pending)), parts)
            pending, parts, size = [], [], 0
    if pending:
        yield Batch(COLUMNS.slots(b"".join(pending)), parts)
