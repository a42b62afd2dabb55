"""Read the segments of a process in batches of a few megabytes.

A segment is a file of slots. A slot is a record of 32 bytes, see `store.format`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ms_profiler.analysis.columns.slots import NO_THREAD
from ms_profiler.store import format as fmt
from ms_profiler.store.format import Kind
from ms_profiler.store.reader import ProcessStore, ReadCounts

#: number of bytes that are decoded at once
BATCH: Final = 8 << 20

#: offset, in bytes, of the kind inside a slot
_KIND: Final = 28
#: kinds of slots that a process does not count as records
_NO_EVENTS: Final = (Kind.THREAD, Kind.PROCESSOR)
#: A segment should begin with a THREAD slot, which names the thread that wrote the following slots. If a segment lacks
#: that slot, this one is put before the segment.
_NO_THREAD: Final = fmt.SLOT.pack(0, 0, NO_THREAD, 0, Kind.THREAD, 0, 0, 0)


@dataclass(frozen=True)
class Segment:
    """The slots of one file.

    Attributes:
        path: the path of the file.
        piece: the bytes of the slots; the first slot is always a THREAD slot.
    """

    path: str
    piece: bytes


def batches(
    store: ProcessStore, counts: ReadCounts, files: Sequence[str] | None = None, most: int | None = None
) -> Iterator[list[Segment]]:
    """Yield the segments of a process in batches of several files.

    Args:
        store: the store of the process.
        counts: receives the number of files that cannot be read.
        files: the paths of the segments to read; all by default.
        most: a batch is complete when it has at least this many bytes; None means `BATCH`.
    """
    pending: list[Segment] = []
    size = 0
    for path, segment in store.segments(counts, files):
        if not segment.slots:
            continue
        slots = bytes(segment.slots)
        kinds = slots[_KIND :: fmt.SLOT_SIZE]  # to slice the memoryview takes eight times as long
        events = len(kinds) - sum(kinds.count(kind) for kind in _NO_EVENTS)
        counts.events[store.folder] = counts.events.get(store.folder, 0) + events
        pending.append(Segment(path, slots if kinds[0] == Kind.THREAD else _NO_THREAD + slots))
        size += len(segment.slots)
        if size >= (BATCH if most is None else most):
            yield pending
            pending, size = [], 0
    if pending:
        yield pending
