"""The open store of the pure-Python recorder: its segments, their disk space, and the control stream.

The control stream consists of the segments that hold strings and anchors, not events.
"""

import errno
import os
import threading
import time
from enum import IntEnum
from itertools import count
from typing import Final

from ms_profiler.job.recorder.contract import NO_MEMORY
from ms_profiler.job.recorder.python_account import PythonAccount
from ms_profiler.job.recorder.segment_file import SegmentFile, mappable, now_ns, size_of
from ms_profiler.store import layout
from ms_profiler.store.account import NO_LIMIT
from ms_profiler.store.format import SEGMENT_CONTROL, SLOT_SIZE, STRING_MAX, Kind

SLOTS_LEAST: Final = 8
SLOTS_MOST: Final = 131072
#: Smallest number of slots of a control segment: room for an anchor, and for the longest string with its first slot.
CONTROL_SLOTS_LEAST: Final = 258
#: Smallest number of free slots for which another thread reuses a segment: room for its name and a few events.
LEFT_OVER_LEAST: Final = 4
#: Bytes on disk of a process's folder and of `process_info.json` in it.
PROCESS_BYTES: Final = 12288
#: One segment takes at most 1 / SHARE of the limit.
SHARE: Final = 16
#: Smallest number of slots of a segment when memory is short: a page.
SHORT_LEAST: Final = 128
#: Time between two attempts to make a segment on a full disk, ns.
RETRY_NS: Final = 1_000_000_000
#: Time between two copies of memory to files that cannot be mapped, ns; a kill may lose the records of this time.
FLUSH_NS: Final = 200_000_000
#: Limits for the bytes and the number of names, because a job may make a new name for every event.
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
    """The id of each text in UTF-8; an id is valid for the life of the process and in its fork children."""

    def __init__(self) -> None:
        self.ids: dict[bytes, int] = {}
        self.text_bytes = self.refused = self.counted = 0
        self._numbers = count(1)

    def add(self, text: bytes, most: int | None = None) -> int:
        """Return the id of a text, which may be new; 0 if a limit is reached. The caller holds the store's lock.

        Args:
            text: the text in UTF-8.
            most: largest number of names of the job's objects; None if the text is a name of ours.
        """
        known = self.ids.get(text)
        if known is not None:
            return known
        # the last eighth of each limit is reserved for our own names
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
    """The open store.

    Args:
        folder: the absolute path of the folder for the segments.
        first_slots: see `Recorder.open`.
        account: see `Recorder.open`.
        limit: see `Recorder.open`.
        memory: see `Recorder.open`.
        written: whether to write files instead of mapping them, even where mappings are reliable.
        strings: the strings of the process.

    Attributes:
        lock: protects everything except the slots of a thread's own segment.
        fine_limit: whether fine-grained events have used up their disk space.
        all_limit: whether all events but steps have used up their disk space.
        closed: whether the store was closed. Threads may still write records then; no reader reads these.

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
        self.lock = threading.RLock()
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
        self._refused = strings.refused  # number of names refused before this store was opened
        self._in_store: dict[int, object] = {}  # id of a text -> unique object of the call that writes it
        self._next_index = self._retry_ns = 0
        self._live: list[SegmentFile] = []
        self._left_over: list[SegmentFile] = []
        self._retired = self._marks = 0  # slots in released segments; slots that name threads
        self._numbers = count(1)  # numbers for threads
        self._flushed_ns = now_ns()
        first = None
        if self.account.take(PROCESS_BYTES, Worth.COARSE):
            first = self._make_control(max(self.first_slots, CONTROL_SLOTS_LEAST))
            if first is None:
                self.account.change(-PROCESS_BYTES)
        if first is None:
            reason = self.failure or errno.EDQUOT
            if reason == errno.EDQUOT:
                self.account.change(refused=1)
            raise OSError(reason, os.strerror(reason), folder)
        self._first = self._control = first
        self.write_strings()
        self.anchor()

    # -- segments

    def _make_control(self, slots: int) -> SegmentFile | None:
        granted = self._charge(slots, CONTROL_SLOTS_LEAST, Worth.ALWAYS)
        return self._make(granted, SEGMENT_CONTROL) if granted else None

    def _charge(self, slots: int, least: int, worth: Worth) -> int:
        """Halve the slots of a new segment until the account has room for them; return their number, 0 if none fit."""
        while not self.account.take(size_of(slots), worth):
            if slots // 2 < least:
                return 0
            slots //= 2
        self.fine_limit |= not self.account.left(Worth.FINE)
        self.all_limit |= not self.account.left(Worth.COARSE)
        return slots

    def _fit(self, slots: int, worth: Worth) -> int:
        """Halve the slots of a new segment until they fit into free memory; return their number, 0 if no page fits."""
        most = self._memory - (self._memory // 4 if worth == Worth.FINE else 0)
        taken = sum(segment.size for segment in self._live)
        while taken + size_of(slots) > most:
            if slots // 2 < SHORT_LEAST:
                self.failure = NO_MEMORY
                return 0
            slots //= 2
        return slots

    def _make(self, slots: int, flags: int) -> SegmentFile | None:
        """Make a segment; on failure, note the errno and return None. All calls but the first one need the lock."""
        index, self._next_index = self._next_index, self._next_index + 1
        try:
            path = os.path.join(self.folder, layout.segment_name(index))
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
        self._retry_ns = now_ns() + RETRY_NS
        return None

    def _waits(self) -> bool:
        return bool(self._retry_ns) and now_ns() < self._retry_ns

    def take(self, slots: int, worth: Worth, first: bool) -> SegmentFile | None:
        """Return a segment with free slots; if none can be had, count a drop and return None.

        Args:
            slots: the number of slots to reserve.
            worth: the priority of the event that needs the slots.
            first: whether the thread has no segment yet; then any segment that another thread has left over is good
                enough.
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
        """Leave the free slots of a segment to the next new thread, or release the segment if few slots are free."""
        if segment.capacity - segment.used < LEFT_OVER_LEAST:
            self.retire(segment)
            return
        with self.lock:
            self._left_over.append(segment)

    def retire(self, segment: SegmentFile) -> None:
        """Release a segment whose slots will not change any more."""
        with self.lock:
            self._copy([segment])
            if segment in self._live:
                self._live.remove(segment)
                self._retired += segment.events

    def new_thread(self) -> int:
        """Return a number for a thread that has not recorded yet."""
        number = next(self._numbers)
        with self.lock:
            self.threads = max(self.threads, number)
        return number

    def mark(self) -> None:
        """Count a slot that holds no event, for example a thread's name."""
        with self.lock:
            self._marks += 1

    def records(self) -> int:
        """Return how many events were committed."""
        with self.lock:
            return sum(segment.events for segment in self._live) + self._retired - self._marks

    def unnamed(self) -> int:
        """Return the number of names that were refused for lack of room."""
        return self._strings.refused - self._refused

    def drop(self, limit: bool) -> None:
        """Count an event that was refused."""
        with self.lock:
            self.dropped += 1
            self.dropped_limit += limit
            self._first.count_drops(self.dropped, self.dropped_limit)

    # -- the control stream

    def intern(self, text: bytes, most: int | None = None) -> int:
        """Return the id of a text, and write the text to the store; 0 if it cannot be written."""
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
        """Write all known strings that the store lacks, until the disk is full."""
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
        segment.commit(slot, now_ns(), 0, len(text), known, bytes((_STRING, 0, 0, extra)))
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
        """Write an anchor: of five pairs of clock readings, the pair with the smallest uncertainty."""
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
        """Write all content that the files lack. A segment in use by another thread stays until it is released."""
        self.anchor()
        with self.lock:
            self.closed = True
            self._copy(list(self._live))
            self._trim([*self._left_over, self._control])
            self._retired += sum(segment.events for segment in self._live)
            self._live.clear()
            self._left_over.clear()
            self._control = self._first


class MemoryStore(PythonStore):
    """A store in memory, to measure the cost of recording."""

    def __init__(self) -> None:
        super().__init__("", 2048, "", None, None, True, Strings())

    def _make(self, slots: int, flags: int) -> SegmentFile | None:
        return SegmentFile("", 0, slots, flags, False)


def _clock_pair() -> tuple[int, int, int]:
    before = now_ns()
    real = time.clock_gettime_ns(time.CLOCK_REALTIME)
    width = now_ns() - before
    return (width + 1) // 2, before + width // 2, real
