"""The files of the pure-Python recorder, called the store: segments of records, and the disk space for them.

Some segments hold events. The others, the control stream, hold strings and readings of clocks (anchors).
"""

import errno
import posix
from enum import IntEnum
from itertools import count
from threading import RLock
from typing import Final

from ms_profiler import clock, paths
from ms_profiler.job.recorder.contract import NO_MEMORY
from ms_profiler.job.recorder.python_account import PythonAccount
from ms_profiler.job.recorder.segment_file import SegmentFile, mappable, size_of
from ms_profiler.store import layout
from ms_profiler.store.account import NO_LIMIT
from ms_profiler.store.format import SEGMENT_CONTROL, SLOT_SIZE, STRING_MAX, Kind

SLOTS_LEAST: Final = 8
SLOTS_MOST: Final = 131072
#: Smallest number of slots of a file for strings and clock readings: room for the longest string and one reading.
CONTROL_SLOTS_LEAST: Final = 258
#: A thread that ends leaves its segment to another thread if this many slots are free: for a name and a few events.
LEFT_OVER_LEAST: Final = 4
#: Bytes on disk of a process's folder and of `process_info.json` in it.
PROCESS_BYTES: Final = 12288
#: One segment, a file of records, takes at most 1 / SHARE of the limit for all files.
SHARE: Final = 16
#: Smallest number of records for which a file has room when memory is short: one page of memory.
SHORT_LEAST: Final = 128
#: Time between two attempts to make a new file of records on a full disk, ns.
RETRY_NS: Final = 1_000_000_000
#: Time between two copies of records to files that cannot be mapped, ns. A kill may lose the records of this time.
FLUSH_NS: Final = 200_000_000
#: Limits for the names: their bytes and their number. A job may make a new name for every event.
STRING_BYTES_MOST: Final = 8 << 20
STRINGS_MOST: Final = 65536

_STRING: Final = int(Kind.STRING)
_ANCHOR: Final = bytes((Kind.ANCHOR, 0, 0, 0))


class Worth(IntEnum):
    """Priority of an event when disk space is short."""

    FINE = 0
    COARSE = 1
    ALWAYS = 2


class Strings:
    """The ids of all texts. An id is valid for the life of the process and in its fork children."""

    def __init__(self) -> None:
        self.ids: dict[bytes, int] = {}
        self.text_bytes = self.refused = self.counted = 0
        self._numbers = count(1)

    def add(self, text: bytes, most: int | None = None) -> int:
        """Return the id of a text; 0 for a new text if a limit is reached. The caller holds the store's lock.

        Args:
            text: the text in UTF-8.
            most: largest number of names of the job's objects; None if the text does not come from the job.
        """
        known = self.ids.get(text)
        if known is not None:
            return known
        # the last eighth of each limit is reserved for names that do not come from the job
        share = 8 if most is None else 7
        if (
            (most is not None and self.counted >= most)
            or 8 * len(self.ids) >= share * STRINGS_MOST
            or 8 * (self.text_bytes + len(text)) > share * STRING_BYTES_MOST
        ):
            self.refused += 1
            return 0
        self.counted += most is not None
        self.text_bytes += len(text)
        return self.ids.setdefault(text, next(self._numbers))


def utf8(text: str) -> bytes:
    """Return a text in UTF-8 for the store: without surrogates, and cut between two characters if it is too long."""
    data = text.encode("utf-8", "replace")
    if len(data) > STRING_MAX:
        data = data[:STRING_MAX].decode("utf-8", "ignore").encode("utf-8")
    return data


class PythonStore:
    """The files of records of this process, while the recorder is open.

    Args:
        folder: the absolute path of the folder for the files of records, the segments.
        first_slots: number of records for which a thread's first segment has room.
        account: path of the file in which all processes of a result count their disk space; empty for none.
        limit: bytes on disk that all processes of the result may take; None means no limit.
        memory: bytes of memory that the records of this process may take at a time; None means no limit.
        written: whether to write files instead of mapping them, even where mappings are reliable.
        strings: the texts of the process, with their ids.

    Attributes:
        lock: protects everything except the slots of a thread's own segment.
        fine_limit: whether fine-grained events have used up their disk space.
        all_limit: whether all events but steps have used up their disk space.
        closed: whether `close` was called. Threads may still write records then, but the analysis ignores these.

    Raises:
        OSError: the first segment cannot be made.
    """

    def __init__(
        self,
        folder: str,
        first_slots: int,
        account: str,
        limit: int | None,
        memory: int | None,
        written: bool,
        strings: Strings,
    ) -> None:
        self.folder = folder
        self.first_slots = min(max(first_slots, SLOTS_LEAST), SLOTS_MOST)
        self.lock = RLock()
        self.fine_limit = self.all_limit = self.closed = False
        self.bytes = self.dropped = self.dropped_limit = self.threads = self.failure = 0
        self.account = PythonAccount(account, limit)
        self._memory = NO_LIMIT if memory is None else memory
        least = min(self.account.now.limit, self._memory)
        self._most_slots = self.first_slots
        while self._most_slots < SLOTS_MOST and self._most_slots * 2 * SLOT_SIZE * SHARE <= least:
            self._most_slots *= 2
        self._mapped = not written and mappable(folder)
        self._strings = strings
        self._refused = strings.refused  # number of names refused before this object was made
        self._in_store: dict[int, object] = {}  # id of a text -> unique object of the call that writes it
        self._next_index = self._retry_ns = 0
        self._live: list[SegmentFile] = []
        self._left_over: list[SegmentFile] = []
        self._retired = self._marks = 0  # slots in released segments; slots that hold no event
        self._numbers = count(1)  # numbers for threads
        self._flushed_ns = clock.raw_ns()
        first = None
        if self.account.take(PROCESS_BYTES, Worth.COARSE):
            first = self._make_control(max(self.first_slots, CONTROL_SLOTS_LEAST))
            if first is None:
                self.account.change(-PROCESS_BYTES)
        if first is None:
            reason = self.failure or errno.EDQUOT
            if reason == errno.EDQUOT:
                self.account.change(refused=1)
            raise OSError(reason, posix.strerror(reason), folder)
        self._first = self._control = first
        self.write_strings()
        self.anchor()

    # -- segments

    def _make_control(self, slots: int) -> SegmentFile | None:
        granted = self._charge(slots, CONTROL_SLOTS_LEAST, Worth.ALWAYS)
        return self._make(granted, SEGMENT_CONTROL) if granted else None

    def _charge(self, slots: int, least: int, worth: Worth) -> int:
        """Halve the number of slots of a new segment until the disk limit allows it; return the number, 0 if none."""
        while not self.account.take(size_of(slots), worth):
            if slots // 2 < least:
                return 0
            slots //= 2
        self.fine_limit |= not self.account.left(Worth.FINE)
        self.all_limit |= not self.account.left(Worth.COARSE)
        return slots

    def _fit(self, slots: int, worth: Worth) -> int:
        """Halve the number of slots of a new segment until free memory suffices; return it, 0 if no page fits."""
        most = self._memory - (self._memory // 4 if worth == Worth.FINE else 0)
        taken = sum(segment.size for segment in self._live)
        while taken + size_of(slots) > most:
            if slots // 2 < SHORT_LEAST:
                self.failure = NO_MEMORY
                return 0
            slots //= 2
        return slots

    def _make(self, slots: int, flags: int) -> SegmentFile | None:
        """Make a segment; on failure, note the errno and return None. Except at first, the caller holds the lock."""
        index, self._next_index = self._next_index, self._next_index + 1
        try:
            path = paths.join(self.folder, layout.segment_name(index))
            segment = SegmentFile(path, index, slots, flags, self._mapped)
        except OSError as error:
            self.failure = error.errno or errno.EIO
        except MemoryError:
            self.failure = errno.ENOMEM
        else:
            self.bytes += segment.size
            self._live.append(segment)
            return segment
        self.account.change(-size_of(slots))
        self._retry_ns = clock.raw_ns() + RETRY_NS
        return None

    def _waits(self) -> bool:
        return bool(self._retry_ns) and clock.raw_ns() < self._retry_ns

    def take(self, slots: int, worth: Worth, first: bool) -> SegmentFile | None:
        """Return a segment with free slots for a thread; if there is none, count a dropped event and return None.

        Args:
            slots: the number of free slots that the thread needs.
            worth: the priority of the event that needs the slots.
            first: whether the thread has no segment yet. Then it takes any segment that an ended thread has left, even
                with fewer free slots.
        """
        with self.lock:
            if self._left_over and (first or self._left_over[-1].capacity - self._left_over[-1].used >= slots):
                return self._left_over.pop()
            made = None
            limit = False
            fitting = 0 if self._waits() else self._fit(min(slots, self._most_slots), worth)
            if fitting:
                granted = self._charge(fitting, min(fitting, self.first_slots), worth)
                limit = not granted
                if not limit:
                    made = self._make(granted, 0)
                elif worth == Worth.FINE:
                    self.fine_limit = True
                else:
                    self.all_limit = True
            if made is None:
                self.drop(limit)
        if made is not None:
            self.anchor()
        return made

    def leave_over(self, segment: SegmentFile) -> None:
        """Leave a segment of an ended thread to the next new thread, or release it if few of its slots are free."""
        if segment.capacity - segment.used < LEFT_OVER_LEAST:
            self.retire(segment)
            return
        with self.lock:
            self._left_over.append(segment)

    def retire(self, segment: SegmentFile) -> None:
        """Release the memory of a segment whose records will not change any more."""
        with self.lock:
            self._copy([segment])
            events = segment.events  # before the sum: a signal handler that runs meanwhile may release another segment
            if segment in self._live:
                self._live.remove(segment)
                self._retired += events

    def new_thread(self) -> int:
        """Return a number for a thread that has not recorded yet."""
        number = next(self._numbers)
        with self.lock:
            self.threads = max(self.threads, number)
        return number

    def mark(self) -> None:
        """Count a slot of a thread's segment that holds no event, for example the thread's name."""
        with self.lock:
            self._marks += 1

    def records(self) -> int:
        """Return how many events were written."""
        with self.lock:
            return sum(segment.events for segment in self._live) + self._retired - self._marks

    def unnamed(self) -> int:
        """Return the number of names that were refused for lack of room."""
        return self._strings.refused - self._refused

    def drop(self, limit: bool) -> None:
        """Count an event that was refused; `limit`: whether because the limit for the disk space was reached."""
        with self.lock:
            self.dropped += 1
            self.dropped_limit += limit
            self._first.count_drops(self.dropped, self.dropped_limit)

    # -- the control stream

    def intern(self, text: bytes, most: int | None = None) -> int:
        """Return the id of a text, and write the text to a file if none has it; 0 if it cannot be written."""
        known = self._strings.ids.get(text)
        if known is not None and known in self._in_store:
            return known
        with self.lock:
            known = self._strings.add(text, most)
            if not known:
                self._first.count_unnamed(self.unnamed())
            if not known or known in self._in_store or self._write_string(known, text):
                return known
            self.drop(False)
            return 0

    def write_strings(self) -> None:
        """Write all known texts that the files lack, until the disk is full."""
        with self.lock:
            for text, known in list(self._strings.ids.items()):
                if known not in self._in_store and not self._write_string(known, text):
                    return

    def _write_string(self, known: int, text: bytes) -> bool:
        mine = object()
        if self._in_store.setdefault(known, mine) is not mine:
            return True  # a signal handler has written it meanwhile
        extra = -(-len(text) // SLOT_SIZE)
        place = self._reserve(1 + extra)
        if place is None:
            del self._in_store[known]
            return False
        segment, slot = place
        segment.payload(slot + 1, text)
        segment.commit(slot, clock.raw_ns(), 0, len(text), known, bytes((_STRING, 0, 0, extra)))
        return True

    def _reserve(self, slots: int) -> tuple[SegmentFile, int] | None:
        segment = self._control
        slot = segment.take_row(slots)
        while slot < 0:
            following = None if self._waits() else self._make_control(min(2 * segment.capacity, self._most_slots))
            if following is None:
                return None
            if segment is not self._first:
                self.retire(segment)
            self._control = segment = following
            slot = segment.take_row(slots)
        return segment, slot

    def anchor(self) -> None:
        """Write an anchor, a pair of clock readings at one instant: the pair of five with the smallest uncertainty."""
        half_width, raw, real = min(_clock_pair() for _ in range(5))
        with self.lock:
            place = self._reserve(1)
            if place is not None:
                place[0].commit(place[1], raw, real, half_width, 0, _ANCHOR)

    def _trim(self, segments: list[SegmentFile]) -> None:
        """Cut off the unused ends of segment files to which no thread writes any more. The caller holds the lock."""
        for segment in segments:
            saved = segment.trim()
            self.bytes -= saved
            self.account.change(-saved)

    # -- where files are not mapped

    def _copy(self, segments: list[SegmentFile]) -> None:
        """Copy segments to their files: strings first, then events, which refer to them. The caller holds the lock."""
        if self._first.mapped:
            return
        pending = [(segment, segment.pending()) for segment in segments if not segment.control]
        pending[:0] = [(segment, segment.pending()) for segment in list(self._live) if segment.control]
        for segment, parts in pending:
            try:
                segment.flush(parts)
            except OSError as error:
                self.failure = error.errno or errno.EIO

    def flush(self, now: int) -> None:
        """Copy all segments to their files if the last copy is older than `FLUSH_NS`.

        Args:
            now: the current time, CLOCK_MONOTONIC_RAW ns.
        """
        if self._first.mapped or now - self._flushed_ns < FLUSH_NS:
            return
        with self.lock:
            self._flushed_ns = now
            self._copy(list(self._live))

    def close(self) -> None:
        """Write all content that the files lack. A segment that another thread uses stays until that thread ends."""
        self.anchor()
        with self.lock:
            self.closed = True
            for segment in list(self._live):
                self.retire(segment)
            self._trim([*self._left_over, self._control])
            self._left_over.clear()
            self._control = self._first


class MemoryStore(PythonStore):
    """Segments of records in memory instead of files, to measure the cost of recording."""

    def __init__(self) -> None:
        super().__init__("", 2048, "", None, None, True, Strings())

    def _make(self, slots: int, flags: int) -> SegmentFile | None:
        return SegmentFile("", 0, slots, flags, False)


def _clock_pair() -> tuple[int, int, int]:
    before = clock.raw_ns()
    real = clock.wall_ns()
    width = clock.raw_ns() - before
    return (width + 1) // 2, before + width // 2, real
