"""Read the recorded files of one process.

A process records into segments, which are files of slots of equal size. A slot holds a record or a part of one. This
module knows the format of the records, but not their meaning. A profiled process may have been killed at any
instruction, and a disk may lose the end of a file. So this module reads all readable records, and counts the others by
reason.
"""

import sys
from _io import open
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ms_profiler import paths
from ms_profiler.store import format as fmt, layout, run_info
from ms_profiler.store.format import Kind

#: offset, in bytes, of the field `kind` in a slot
_KIND = 28
#: size of the blocks in which `_used` searches a file backwards for the last byte that is not zero
_TAIL = 4096
#: Upper limit of the numbers of stored texts. A larger number is a sign of damage: a process stores at most 65,536
#: texts.
_NAMES_MOST = 1 << 20
_FOREIGN_MAGIC = int.from_bytes(fmt.MAGIC.to_bytes(8, "little"), "big")


@dataclass(frozen=True)
class Missing:
    """Records of one process that it wrote and that no file has.

    Attributes:
        pid: the process.
        records: the least number of these records; 0 if only the loss of a file is known.
        first_ns: the earliest time that they may have, ns of CLOCK_MONOTONIC_RAW; 0 if unknown.
        last_ns: the latest time that they may have, on the same clock; 0 if unknown.
        files: for each file that lacks records, a text such as "process_7/000002.seg is missing"; empty if unknown.
    """

    pid: int
    records: int
    first_ns: int
    last_ns: int
    files: tuple[str, ...]

    def describe(self) -> str:
        """Return a few words about the missing records."""
        many = f"at least {self.records} records" if self.records else "some records"
        shown = ", ".join(self.files[:3]) + (f" and {len(self.files) - 3} more" if len(self.files) > 3 else "")
        return f"{many} of process {self.pid} are in no file" + (f" ({shown})" if shown else "")


@dataclass
class ReadCounts:
    """The numbers of records that were read, and of records that were skipped, by reason.

    Attributes:
        slots: complete (committed) slots that were understood, strings and anchors included.
        torn: slots that the process did not complete, although later slots of the same segment are complete.
        cut: slots that are incomplete because the file ends in them.
        unknown: slots of a kind that this version does not know, or that this type of segment never has.
        backwards: records that end before they start, or have an impossible time.
        impossible: records with another impossible number, for example the category of a span.
        missing_strings: records whose name was not found; these records get a placeholder as name.
        empty_files: segments that were made but never written; they contain no lost records.
        damaged_kernels: kernels whose record cannot be read, or whose time is outside of the time in which MindSpore's
            kernel recorder ran.
        damaged_memory: records of the framework's allocator that cannot be read.
        damaged_events: events of another tool's trace that cannot be read.
        damaged_files: (name, reason) of each file that was left out.
        missing: records that processes wrote and that no file has.
        events: folder of a process -> number of its slots that were read and that the process counts as records.
    """

    slots: int = 0
    torn: int = 0
    cut: int = 0
    unknown: int = 0
    backwards: int = 0
    impossible: int = 0
    missing_strings: int = 0
    empty_files: int = 0
    damaged_kernels: int = 0
    damaged_memory: int = 0
    damaged_events: int = 0
    damaged_files: list[tuple[str, str]] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    events: dict[str, int] = field(default_factory=dict)

    @property
    def lost(self) -> int:
        """Return the number of slots that could not be used."""
        return self.torn + self.cut + self.unknown + self.backwards + self.impossible

    @property
    def unreadable(self) -> int:
        """Return the number of records and files of the job's events that are damaged or missing."""
        missing = sum(max(lost.records, len(lost.files)) for lost in self.missing)
        whole = self.lost + self.missing_strings + missing
        return whole + self.damaged_kernels + self.damaged_events + len(self.damaged_files)

    @property
    def damaged(self) -> bool:
        """Return whether any record could not be read."""
        return bool(
            self.lost
            or self.missing_strings
            or self.damaged_kernels
            or self.damaged_memory
            or self.damaged_events
            or self.damaged_files
            or self.missing
        )

    def describe(self) -> str:
        """Return a line about the records that could not be read; empty if all were read."""
        numbers = {
            "torn slots": self.torn,
            "slots cut off": self.cut,
            "slots of unknown kind": self.unknown,
            "records with impossible times": self.backwards,
            "records with impossible numbers": self.impossible,
            "records without their name": self.missing_strings,
            "kernels that cannot be read": self.damaged_kernels,
            "records of memory that cannot be read": self.damaged_memory,
            "events that cannot be read": self.damaged_events,
        }
        parts = [f"{number} {what}" for what, number in numbers.items() if number]
        parts += [lost.describe() for lost in self.missing]
        return "; ".join([*parts, *(f"{name}: {reason}" for name, reason in self.damaged_files)])

    @property
    def reasons(self) -> str:
        """Return why files were left out: each reason with the name of one file and the number of further files."""
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.damaged_files:
            by_reason.setdefault(reason, []).append(name)
        return "; ".join(
            f"{min(names)}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {reason}"
            for reason, names in by_reason.items()
        )


@dataclass(frozen=True)
class Anchor:
    """The times of two clocks at nearly the same moment, and half of the time that it took to read them; all in ns."""

    raw_ns: int
    real_ns: int
    half_width_ns: int


@dataclass(frozen=True)
class Header:
    """The header of a file: whether it belongs to the control stream, its slots at first, and when it was made."""

    control: bool
    capacity: int
    created_ns: int


@dataclass(frozen=True)
class Segment:
    """The usable part of one segment, which is a file of records.

    Attributes:
        slots: the bytes from the first slot to the last complete (committed) one.
        control: whether the segment holds strings and anchors (readings of the clocks) instead of events.
    """

    name: str
    control: bool
    pid: int
    dropped: int
    dropped_limit: int
    unnamed: int
    slots: memoryview


#: why names may be missing, for messages to the user; the numbers are the limits in native/strings.c and `Labels.name`
LIMITS = "a process stores at most 65536 names in 8 MB, and 4096 names of modules that no longer exist"


@dataclass
class ProcessStore:
    """The files of one process: its `process_info.json`, its strings and anchors, and the files with its events.

    Attributes:
        info: the content of `process_info.json`; default values if the file is missing.
        has_info: whether the file was found; if not, `info.state` means nothing.
        last_ns: time of the last string or anchor by CLOCK_MONOTONIC_RAW.
        files: segments that may hold events, oldest first.
    """

    folder: str
    pid: int
    info: run_info.ProcessInfo
    has_info: bool
    strings: dict[int, str] = field(default_factory=dict)
    anchors: list[Anchor] = field(default_factory=list)
    last_ns: int = 0
    dropped: int = 0
    dropped_limit: int = 0
    unnamed: int = 0
    files: list[str] = field(default_factory=list)

    @property
    def most_slots(self) -> int:
        """Return the largest number of slots that the process can have written, from the sizes of its files."""
        size = 0
        for path in self.files:
            try:
                size += paths.getsize(path)
            except OSError:
                pass  # when `segments` reads this file, it reports why the file cannot be read
        return size // fmt.SLOT_SIZE

    def segments(self, counts: ReadCounts, files: Sequence[str] | None = None) -> Iterator[tuple[str, Segment]]:
        """Read the files with events one by one.

        Args:
            counts: receives the numbers of read and skipped records.
            files: paths of the files to read; all by default.

        Yields: the path and the content of each file.
        """
        for path in self.files if files is None else files:
            segment = read_segment(path, counts)
            if segment is not None:
                yield path, segment


def read_process(folder: str, counts: ReadCounts) -> ProcessStore | None:
    """Read `process_info.json`, names and clock readings of a process; None if nothing in `folder` is readable.

    Args:
        folder: a `process_{pid}` directory.
        counts: receives the numbers of read and skipped records.
    """
    info, found = _read_info(folder, counts)
    store = ProcessStore(folder, info.pid or int(paths.basename(folder).rpartition("_")[2]), info, found)
    try:
        segments = layout.segment_paths(folder)
    except OSError as error:
        counts.damaged_files.append((paths.basename(folder), error.strerror or "cannot be listed"))
        return None
    readable = False
    for path in segments:
        head = header(path)
        if head is not None and not head.control:
            store.files.append(path)
            readable = True
            continue
        segment = read_segment(path, counts)
        if segment is None:
            continue
        readable = True
        if segment.control:
            store.dropped = max(store.dropped, segment.dropped)
            store.dropped_limit = max(store.dropped_limit, segment.dropped_limit)
            store.unnamed = max(store.unnamed, segment.unnamed)
            _read_control(bytes(segment.slots), store, counts)
    if store.unnamed:  # number of records without names; it is stored in the segments, so a kill does not lose it
        why = f"{LIMITS}; {store.unnamed} names were refused"
        info.not_collected("some names of modules, operators, shapes, regions and threads", why)
    return store if readable else None


def read_segment(path: str, counts: ReadCounts) -> Segment | None:
    """Return the content of one file of records. If it has no usable slot, count the file in `counts`, return None.

    Args:
        path: the path of the file.
        counts: receives the numbers of read and skipped records.
    """
    name = paths.join(paths.basename(paths.dirname(path)), paths.basename(path))
    try:
        with open(path, "rb") as stream:
            content = stream.read()
    except OSError as error:
        counts.damaged_files.append((name, error.strerror or "cannot be read"))
        return None
    used = _used(content)
    if used == 0:
        counts.empty_files += 1
        return None
    if used <= fmt.HEADER_SIZE and not any(content[:8]):
        counts.empty_files += 1  # the header is incomplete, because a process writes the magic number last
        return None
    reason = _unusable(content)
    if reason:
        counts.damaged_files.append((name, reason))
        return None
    _, _, header_size, _, flags, _, pid, _, _, dropped, limit, unnamed, _ = fmt.HEADER.unpack_from(content)
    whole = (len(content) - header_size) // fmt.SLOT_SIZE
    if used > header_size + whole * fmt.SLOT_SIZE:
        counts.cut += 1
    end = min(-(-(used - header_size) // fmt.SLOT_SIZE), whole) * fmt.SLOT_SIZE + header_size
    control = bool(flags & fmt.SEGMENT_CONTROL)
    # The process died while it wrote the slots after the last complete one. They are no damage, so they are cut off
    # here. In a control segment they stay, because they may be the bytes of a string.
    while not control and end > header_size and content[end - fmt.SLOT_SIZE + _KIND] == 0:
        end -= fmt.SLOT_SIZE
    return Segment(name, control, pid, dropped, limit, unnamed, memoryview(content)[header_size:end])


def _used(content: bytes) -> int:
    """Return the number of bytes before the zeros at the end of a file; `rstrip` would copy the whole content."""
    end = len(content)
    while end > 0:
        begin = max(end - _TAIL, 0)
        left = len(content[begin:end].rstrip(b"\0"))
        if left:
            return begin + left
        end = begin
    return 0


def _unusable(content: bytes) -> str:
    if len(content) < fmt.HEADER_SIZE:
        return f"{len(content)} bytes are less than a header"
    magic, version, header_size, slot_size, *_ = fmt.HEADER.unpack_from(content)
    if magic == _FOREIGN_MAGIC:
        return f"written on a machine of the other byte order, this one is {sys.byteorder} endian"
    if magic != fmt.MAGIC:
        return "not a segment"
    if version != fmt.FORMAT_VERSION:
        return f"format version {version}, this program reads {fmt.FORMAT_VERSION}"
    if slot_size != fmt.SLOT_SIZE or not fmt.HEADER_SIZE <= header_size <= len(content):
        return f"a header that contradicts itself (header {header_size}, slot {slot_size} bytes)"
    return ""


def header(path: str) -> Header | None:
    """Return the header of a file without reading the rest, which may be large; None if it cannot be read.

    Args:
        path: the path of the file.
    """
    try:
        with open(path, "rb") as stream:
            content = stream.read(fmt.HEADER_SIZE)
    except OSError:
        return None
    if len(content) < fmt.HEADER_SIZE or _unusable(content):
        return None
    _, _, _, _, flags, capacity, _, _, created_ns, *_ = fmt.HEADER.unpack(content)
    return Header(bool(flags & fmt.SEGMENT_CONTROL), capacity, created_ns if created_ns < fmt.LATEST_NS else 0)


def _read_info(folder: str, counts: ReadCounts) -> tuple[run_info.ProcessInfo, bool]:
    path = paths.join(folder, layout.PROCESS_INFO)
    try:
        return run_info.read_process(path), True
    except FileNotFoundError:
        reason = "missing"
    except (OSError, ValueError, TypeError) as error:
        reason = str(error)
    counts.damaged_files.append((paths.join(paths.basename(folder), layout.PROCESS_INFO), reason))
    return run_info.ProcessInfo(), False


def _read_control(slots: bytes, store: ProcessStore, counts: ReadCounts) -> None:
    position, end = 0, len(slots)
    # Both count only since the last complete slot: at the end of the file, a half-written string is no damage.
    torn = unknown = 0
    while position < end:
        start_ns, end_ns, arg, name, kind, _, _, extra = fmt.SLOT.unpack_from(slots, position)
        position += fmt.SLOT_SIZE
        if kind == Kind.STRING:
            text, size = slots[position : position + arg], extra * fmt.SLOT_SIZE
            position += size
            if arg > size or position > end:
                counts.cut += 1
                continue
            if name >= _NAMES_MOST:
                counts.unknown += 1
                continue
            store.strings[name] = text.decode("utf-8", "replace")
        elif kind == Kind.ANCHOR and max(start_ns, end_ns, arg) < fmt.LATEST_NS:
            store.anchors.append(Anchor(start_ns, end_ns, arg))
        elif kind == 0:
            torn += 1
            continue
        elif kind != Kind.THREAD:
            unknown += 1
            continue
        counts.torn += torn
        counts.unknown += unknown
        torn = unknown = 0
        counts.slots += 1
        store.last_ns = max(store.last_ns, start_ns if start_ns < fmt.LATEST_NS else 0)
