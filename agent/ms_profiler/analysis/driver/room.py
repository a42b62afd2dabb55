"""The disk space of an analysis: a share of `max_disk` that the recording does not use.

If a timeline does not fit, it shows only some consecutive steps. Any other file that does not fit is left out.
"""

import errno
import io
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ms_profiler.analysis.model import tables
from ms_profiler.store import account, layout

#: share of the disk space for the files that are written section by section, such as timelines
SECTIONS: Final = 3 / 4


class FullError(OSError):
    """A file would take more space than is left."""

    def __init__(self) -> None:
        super().__init__(errno.EDQUOT, "it takes more than the share of max_disk that the analysis has")


class Room:
    """The number of bytes that may still be written.

    Args:
        left: the bytes that may be written; None for no limit.
    """

    def __init__(self, left: int | None = None) -> None:
        self.left = left
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """Subtract bytes from the room; a negative number adds them.

        Raises:
            FullError: not enough bytes are left.
        """
        with self._lock:
            if self.left is None:
                return
            if size > self.left:
                raise FullError
            self.left -= size

    def part(self, share: float) -> "Room":
        """Return a new `Room` with a part of the bytes that are left. This room keeps its number of bytes."""
        return Room(None if self.left is None else int(self.left * share))


class Bounded(io.FileIO):
    """A file that may take at most the bytes that a `Room` has left.

    Args:
        descriptor: the descriptor of the file; closed together with this object.
        room: the room from which the bytes of the file are taken.
    """

    def __init__(self, descriptor: int, room: Room) -> None:
        super().__init__(descriptor, "w")
        self._room = room
        self.taken = 0

    def write(self, data, /):  # type: ignore[no-untyped-def] # any buffer, as io.FileIO
        """Write the bytes, or raise `FullError` if there is not enough room for all of them."""
        size = memoryview(data).nbytes
        self._room.take(size)
        self.taken += size
        return super().write(data)

    @contextmanager
    def written_directly(self) -> Iterator[int]:
        """Let a `with` block write to the descriptor itself. Yield the limit in bytes, and count the bytes later.

        Raises:
            FullError: the block had more bytes than the limit, and raised an OSError with EOVERFLOW.
        """
        left = self._room.left
        try:
            yield sys.maxsize if left is None else left
        except OSError as error:
            if error.errno != errno.EOVERFLOW:
                raise
            raise FullError from error
        finally:
            size = os.fstat(self.fileno()).st_size
            self._room.take(size - self.taken)
            self.taken = size


def of(recording: tables.Recording) -> Room:
    """Return the disk space for the analysis of a run. For results of other tools, there is no limit."""
    if recording.foreign:
        return Room()
    most = recording.info.options.get("max_disk")
    limits = [most // layout.ANALYSIS_SHARE] if isinstance(most, int) else []
    found = account.read(layout.account_path(recording.directory))
    if found is not None and found.limit != account.NO_LIMIT:
        limits.append(found.limit // (layout.ANALYSIS_SHARE - 1))
    return Room(min(limits)) if limits else Room()
