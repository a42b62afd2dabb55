"""Segments to columns: the slots of a store, a few megabytes at a time."""

from collections.abc import Iterator
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


def batches(store: ProcessStore, counts: ReadCounts) -> Iterator[pl.DataFrame]:
    """Yield all slots of a process as `columns.base.SLOTS`.

    Args:
        store: the process.
        counts: is told about files that cannot be read.
    """
    for batch in _joined(store, counts):
        yield COLUMNS.slots(batch)


def _joined(store: ProcessStore, counts: ReadCounts) -> Iterator[bytes]:
    pending: list[bytes] = []
    size = 0
    for segment in store.segments(counts):
        if not segment.slots:
            continue
        if segment.slots[_KIND] != Kind.THREAD:
            pending.append(_NO_THREAD)
        pending.append(segment.slots)
        size += len(segment.slots)
        if size >= BATCH:
            yield b"".join(pending)
            pending, size = [], 0
    if pending:
        yield b"".join(pending)
