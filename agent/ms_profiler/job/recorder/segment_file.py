"""One file of records of the pure-Python recorder, a segment; `native/segment.c` writes the same files in C.

A segment has a header and slots of 32 bytes. A record takes one slot, and a string takes several.
"""

import errno
import posix
import stat
import struct
from _io import open
from itertools import islice
from operator import length_hint
from typing import TYPE_CHECKING, Final

from ms_profiler import clock
from ms_profiler.store import layout
from ms_profiler.store.file_limit import limited
from ms_profiler.store.format import FORMAT_VERSION, HEADER, HEADER_SIZE, MAGIC, SEGMENT_CONTROL, SLOT_SIZE

if TYPE_CHECKING:
    from ms_profiler.job.recorder.mapping import Mapping

#: Local file systems that write to a file in place. On other file systems, a write to a mapped file may raise SIGBUS.
MAPPABLE: Final = frozenset({"ext2", "ext3", "ext4", "xfs", "tmpfs", "overlay", "f2fs"})
#: Errors of mmap for a file that cannot be mapped with MAP_SHARED; other errors mean that memory is short.
REFUSES_MAPPING: Final = frozenset({errno.ENODEV, errno.EINVAL, errno.EACCES, errno.EPERM, errno.EOPNOTSUPP})

_BODY: Final = struct.Struct("=QQQI")  # a slot without its last word
_U64: Final = struct.Struct("=Q")
_DROPPED: Final = 48  # offsets in the header
_DROPPED_LIMIT: Final = 56
_UNNAMED: Final = 64
_END: Final = 8  # offsets in a slot
_ARG: Final = 16
_LAST_WORD: Final = 28


def mappable(folder: str) -> bool:
    """Return whether `folder` is on a file system whose files can be mapped into memory without risk of SIGBUS."""
    device = posix.stat(folder).st_dev
    wanted = f"{posix.major(device)}:{posix.minor(device)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as stream:
            for line in stream:
                fields, _, rest = line.partition(" - ")
                if fields.split()[2] == wanted:
                    return rest.split()[0] in MAPPABLE
    except (OSError, IndexError):
        pass
    return False


class SegmentFile:
    """A file of records, a segment. It has room for a fixed number of records, in slots that are filled one by one.

    The constructor makes the file, reserves its disk blocks, and maps it into memory.

    Args:
        path: the path of the file, which must not exist; "" keeps the segment in memory.
        index: number of the segment in its process.
        capacity: the number of slots.
        flags: `SEGMENT_CONTROL` for a segment of strings and clock readings, or 0 for a segment of events.
        mapped: whether to map the file. If it is not mapped, or mapping fails, `flush` copies memory to the file.

    Attributes:
        control: whether the segment has strings and clock readings, not events.
        mapped: whether written records are in the file at once, because memory is the file's mapping.

    Raises:
        OSError: the file cannot be made, for example on a full disk; no file is left behind.
    """

    def __init__(self, path: str, index: int, capacity: int, flags: int, mapped: bool) -> None:
        self.path = path
        self.capacity = capacity
        self.size = size_of(capacity)
        self._free = iter(range(capacity))  # free slots; `next` is atomic, so no slot is given out twice
        self.control = bool(flags & SEGMENT_CONTROL)
        self._flushed = HEADER_SIZE  # bytes of memory that are in the file
        self._changed: list[int] = []  # slots that have changed since they were copied to the file
        self._mapping = self._make_file(mapped) if path else None
        self.memory = self._mapping.memory if self._mapping else memoryview(bytearray(self.size))
        self.mapped = self._mapping is not None or not path
        fields = (
            FORMAT_VERSION,
            HEADER_SIZE,
            SLOT_SIZE,
            flags,
            capacity,
            posix.getpid(),
            index,
            clock.raw_ns(),
            0,
            0,
            0,
            b"",
        )
        HEADER.pack_into(self.memory, 0, 0, *fields)
        _U64.pack_into(self.memory, 0, MAGIC)

    def _make_file(self, mapped: bool) -> "Mapping | None":
        creation = posix.O_RDWR | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW | posix.O_CLOEXEC
        descriptor = posix.open(self.path, creation, layout.FILE_MODE)
        try:
            self._reserve(descriptor)
            return _map(descriptor, self.size) if mapped else None
        except BaseException:
            posix.unlink(self.path)
            raise
        finally:
            posix.close(descriptor)

    def _reserve(self, descriptor: int) -> None:
        """Give the file its size, and reserve its disk blocks.

        Without the reservation, a write to the mapping would cause SIGBUS when the disk is full.
        """
        with limited():
            try:
                posix.posix_fallocate(descriptor, 0, self.size)
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                    raise
                write_at(descriptor, bytes(self.size), 0)

    @property
    def used(self) -> int:
        """Return the number of slots in use."""
        return self.capacity - length_hint(self._free)

    @property
    def events(self) -> int:
        """Return the number of slots that hold events of threads."""
        return 0 if self.control else self.used

    def take(self) -> int:
        """Return a free slot, or -1 if no slot is free."""
        return next(self._free, -1)

    def take_row(self, count: int) -> int:
        """Return the first of `count` consecutive free slots; if fewer are free, return -1 and never use those."""
        slots = list(islice(self._free, count))
        return slots[0] if len(slots) == count else -1

    def commit(self, slot: int, start_ns: int, end_ns: int, arg: int, name: int, last: bytes) -> None:
        """Fill a slot with a record. Its last word is written last; before that, readers ignore the slot.

        Args:
            slot: number of the slot, from `take`.
            start_ns: begin of the record, ns; for some kinds another value, as native/file_format.h says.
            end_ns: end of the record, ns; for some kinds another value.
            arg: argument of the record; its meaning depends on the kind.
            name: id of the record's name.
            last: kind, category, flags and extra byte of the record.
        """
        offset = HEADER_SIZE + slot * SLOT_SIZE
        if self.mapped:
            _BODY.pack_into(self.memory, offset, start_ns, end_ns, arg, name)
            self.memory[offset + _LAST_WORD : offset + SLOT_SIZE] = last
            return
        # a single assignment, because `flush` may run on another thread
        self.memory[offset : offset + SLOT_SIZE] = _BODY.pack(start_ns, end_ns, arg, name) + last
        if offset < self._flushed:
            self._changed.append(slot)

    def end(self, slot: int, end_ns: int, last: bytes) -> None:
        """Add the end to the record of an open span.

        Args:
            slot: number of the slot, which `commit` filled.
            end_ns: end of the span, ns.
            last: kind, category, flags and extra byte of the record.
        """
        offset = HEADER_SIZE + slot * SLOT_SIZE
        if self.mapped:
            _U64.pack_into(self.memory, offset + _END, end_ns)
            self.memory[offset + _LAST_WORD : offset + SLOT_SIZE] = last
            return
        between = bytes(self.memory[offset + _ARG : offset + _LAST_WORD])
        self.memory[offset + _END : offset + SLOT_SIZE] = _U64.pack(end_ns) + between + last
        if offset < self._flushed:
            self._changed.append(slot)

    def payload(self, slot: int, data: bytes) -> None:
        """Write the text of a string into the slots after its first slot, `slot`."""
        offset = HEADER_SIZE + slot * SLOT_SIZE
        self.memory[offset : offset + len(data)] = data

    def trim(self) -> int:
        """Cut the unused end off the file, to which no thread writes any more; return the number of released bytes.

        If something else has truncated or replaced the file, it stays unchanged.
        """
        size = HEADER_SIZE + self.used * SLOT_SIZE
        try:
            info = posix.lstat(self.path)
            if size >= self.size or not stat.S_ISREG(info.st_mode) or info.st_size != self.size:
                return 0
            posix.truncate(self.path, size)
        except OSError:
            return 0
        return self.size - size

    def count_drops(self, dropped: int, limit: int) -> None:
        """Write the counts of dropped events to the header."""
        _U64.pack_into(self.memory, _DROPPED, dropped)
        _U64.pack_into(self.memory, _DROPPED_LIMIT, limit)

    def count_unnamed(self, unnamed: int) -> None:
        """Write the count of refused names to the header."""
        _U64.pack_into(self.memory, _UNNAMED, unnamed)

    def pending(self) -> list[tuple[int, bytes]]:
        """Return the parts of the memory that the file lacks, as (offset, copy); nothing if the file is mapped."""
        if self.mapped:
            return []
        changed, self._changed = self._changed, []
        begin, end = self._flushed, HEADER_SIZE + self.used * SLOT_SIZE
        self._flushed = end  # before the copy is made, so that slots filled meanwhile count as changed
        parts = [(0, bytes(self.memory[:HEADER_SIZE])), (begin, bytes(self.memory[begin:end]))]
        for slot in changed:
            offset = HEADER_SIZE + slot * SLOT_SIZE
            parts.append((offset, bytes(self.memory[offset : offset + SLOT_SIZE])))
        return parts

    def flush(self, parts: list[tuple[int, bytes]]) -> None:
        """Copy content to the file.

        Args:
            parts: (offset, content) pairs from `pending`. After an error, `pending` returns the whole content again.

        Raises:
            OSError: the file cannot be written.
        """
        if not parts:
            return
        try:
            descriptor = posix.open(self.path, posix.O_WRONLY | posix.O_NOFOLLOW | posix.O_CLOEXEC)
            try:
                with limited():
                    for offset, data in parts:
                        write_at(descriptor, data, offset)
            finally:
                posix.close(descriptor)
        except OSError:
            self._flushed = HEADER_SIZE
            raise


def _map(descriptor: int, size: int) -> "Mapping | None":
    """Map a file; return None if its file system cannot map it, and raise OSError if memory is short."""
    try:
        from ms_profiler.job.recorder.mapping import Mapping
    except ImportError:  # an interpreter without ctypes
        return None
    try:
        return Mapping(descriptor, size)
    except OSError as error:
        if error.errno not in REFUSES_MAPPING:
            raise
        return None


def size_of(capacity: int) -> int:
    """Return the bytes of a segment of `capacity` slots."""
    return HEADER_SIZE + capacity * SLOT_SIZE


def write_at(descriptor: int, data: bytes | memoryview, offset: int) -> None:
    """Write all of `data` at `offset`."""
    view = memoryview(data)
    while view:
        written = posix.pwrite(descriptor, view, offset)
        view = view[written:]
        offset += written
