"""Count the disk space of a result in the pure-Python recorder; `native/account.c` does it for the recorder in C.

All processes of a result share the count, which is in a file, the account. Python cannot add to a number in shared
memory atomically, so each change reads and writes the file. A change takes the lock of the file if the lock is free,
but does not wait for it.
"""

import errno
import fcntl
import posix
from collections.abc import Iterator
from contextlib import contextmanager

from ms_profiler.store import account, layout
from ms_profiler.store.account import Account
from ms_profiler.store.file_limit import limited


class PythonAccount:
    """The account of a result: a file in which all processes of the result count their disk space.

    The constructor makes the file if it is missing.

    Args:
        path: path of the account's file; empty for an account of this process alone.
        limit: bytes that may be taken, if this process makes the account; None means no limit.
    """

    def __init__(self, path: str, limit: int | None) -> None:
        self._path = path
        self.now = Account(account.NO_LIMIT if limit is None else limit)
        if path:
            self._make()

    def _make(self) -> None:
        content = self.now.packed().ljust(account.FILE_SIZE, b"\0")
        try:
            flags = posix.O_RDWR | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW | posix.O_CLOEXEC
            descriptor = posix.open(self._path, flags, layout.FILE_MODE)
        except OSError as error:
            self._path = self._path if error.errno == errno.EEXIST else ""
            self.change()
            return
        try:
            with limited():
                posix.pwrite(descriptor, content, 0)
        except OSError:
            posix.unlink(self._path)
            self._path = ""
        finally:
            posix.close(descriptor)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        descriptor = posix.open(self._path, posix.O_RDWR | posix.O_NOFOLLOW | posix.O_CLOEXEC)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                pass  # without the lock, a change by another process at the same time may be lost
            yield descriptor
        finally:
            posix.close(descriptor)

    def change(self, size: int = 0, limit: int = 0, refused: int = 0) -> None:
        """Add to the counts in the file, and read the sums of all processes.

        Args:
            size: bytes on disk that were taken; negative if they were released.
            limit: bytes to add to the limit.
            refused: number of processes that found no room.
        """
        if not self._path:
            self._add(size, limit, refused)
            return
        try:
            with self._opened() as descriptor, limited():
                self.now = account.parsed(posix.pread(descriptor, account.FORMAT.size, 0)) or self.now
                self._add(size, limit, refused)
                if size or limit or refused:
                    posix.pwrite(descriptor, self.now.packed(), 0)
        except OSError:  # count in memory only: a file system that refuses this file refuses records, too
            self._add(size, limit, refused)

    def _add(self, size: int, limit: int, refused: int) -> None:
        limited_by = self.now.limit
        most = limited_by if limited_by == account.NO_LIMIT else max(limited_by + limit, 0)
        self.now = Account(most, max(self.now.taken + size, 0), self.now.refused + refused)

    def take(self, size: int, worth: int) -> bool:
        """Count `size` bytes as taken if the limit for records of this priority allows it; return whether it does."""
        self.change()
        if self.now.taken + size > self.now.ceilings[worth]:
            return False
        self.change(size)
        return True

    def left(self, worth: int) -> int:
        """Return the bytes that records of this priority may still take; less important records may take fewer."""
        return max(self.now.ceilings[worth] - self.now.taken, 0)
