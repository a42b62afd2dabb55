"""Convert segments to columns: the slots of a store, a few megabytes at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ms_profiler.analysis.columns.slots import NO_THREAD
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
class Segment:
    """The slots of a file.

    Attributes:
        path: the path of the file.
        piece: a piece of the slots, a THREAD slot first.
    """

    path: str
    piece: bytes


def batches(
    store: ProcessStore, counts: ReadCounts, files: Sequence[str] | None = None, most: int | None = None
) -> Iterator[list[Segment]]:
    """Yield the slots of a process, several files at a time.

    Args:
        store: the process.
        counts: receives the number of files that cannot be read.
        files: segments; all by default.
        most: bytes after which no further file is added; `BATCH` by default.
    """
    pending: list[Segment] = []
    size = 0
    for path, segment in store.segments(counts, files):
        if not segment.slots:
            continue
        known = segment.slots[_KIND] == Kind.THREAD
        pending.append(Segment(path, (b"" if known else _NO_THREAD) + bytes(segment.slots)))
        size += len(segment.slots)
        if size >= (BATCH if most is None else most):
            yield pending
            pending, size = [], 0
    if pending:
        yield pending
