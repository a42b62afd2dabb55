"""The segments of one session of the pure-Python recorder: budget, left-overs, control stream."""

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
#: The longest string and its head, with an anchor beside it.
CONTROL_SLOTS_LEAST: Final = 258
#: Fewest slots that are left to the next thread: its name and a few events.
LEFT_OVER_LEAST: Final = 4
#: A folder and the process's record.
PROCESS_BYTES: Final = 12288
#: Part of the account that one segment may take.
SHARE: Final = 16
#: Slots of a segment where memory is short: a page.
SHORT_LEAST: Final = 128
#: A full disk is asked again once a second.
RETRY_NS: Final = 1_000_000_000
#: Time whose records a kill may lose if the store cannot be mapped.
FLUSH_NS: Final = 200_000_000
#: A job that makes a new name for every event must not fill its memory through us.
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
    """Ids of texts by their UTF-8, good for the life of the process and in its fork children."""

    def __init__(self) -> None:
        self.ids: dict[bytes, int] = {}
        self.text_bytes = self.refused = self.counted = 0
        self._numbers = count(1)

    def add(self, text: bytes, most: int | None = None) -> int:
        """Return the id of a text, a new one if necessary; 0 if there is no room for more. The caller holds the store's
        lock.

        Args:
            text: the text in UTF-8.
            most: largest number of names of this kind.
        """
        known = self.ids.get(text)
        if known is not None:
            return known
        # an eighth is for our own names
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
    """Return `text` as a store holds it: halves of surrogate pairs replaced, cut at the start of a character."""
    data = text.encode("utf-8", "replace")
    if len(data) > STRING_MAX:
        data = data[:STRING_MAX].decode("utf-8", "ignore").encode("utf-8")
    return data


class PythonStore:
    """The open session.

    Args:
        folder: the absolute path of the folder for the segments.
        first_slots: see `Recorder.open`.
        account: see `Recorder.open`.
        limit: see `Recorder.open`.
        memory: see `Recorder.open`.
        written: do not map files, also where that can be relied on.
        strings: the strings of the process.

    Attributes:
        lock: protects everything but the slots of a thread's own segment.
        fine_limit: whether fine-grained events are over their budget.
        all_limit: whether all events but steps are over their budget.
        closed: whether the session is over; segments that threads still hold will not be read.

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
        self._refused = strings.refused  # before this session
        self._in_store: dict[int, object] = {}  # id -> session that wrote it
        self._next_index = self._retry_ns = 0
        self._live: list[SegmentFile] = []
        self._left_over: list[SegmentFile] = []
        self._retired = self._marks = 0  # slots in released segments; slots that name threads
        self._numbers = count(1)  # of threads
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
        """Charge a segment to the account: of `slots` slots, halved as often as necessary; return 0 if there is no
        room.
        """
        while not self.account.take(size_of(slots), worth):
            if slots // 2 < least:
                return 0
            slots //= 2
        self.fine_limit |= not self.account.left(Worth.FINE)
        self.all_limit |= not self.account.left(Worth.COARSE)
        return slots

    def _fit(self, slots: int, worth: Worth) -> int:
        """Halve a segment until it fits into the memory that is left; return 0 where not even a page does."""
        most = self._memory - (self._memory // 4 if worth == Worth.FINE else 0)
        taken = sum(segment.size for segment in self._live)
        while taken + size_of(slots) > most:
            if slots // 2 < SHORT_LEAST:
                self.failure = NO_MEMORY
                return 0
            slots //= 2
        return slots

    def _make(self, slots: int, flags: int) -> SegmentFile | None:
        """Make a segment; without disk space, note the errno and return None. All calls but the first hold the lock."""
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
        """Return a segment with free slots; if there is none, count a drop and return None.

        Args:
            slots: the number of slots to reserve.
            worth: the priority of the event that needs it.
            first: whether the thread has no segment yet, so that any left-over one will do.
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
        """Leave the rest of a segment to the next new thread, or release it when little is left."""
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
        """Count a slot that is no event."""
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
        """Return the id of a text, written to the store; 0 when it cannot be."""
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
            return True  # a signal handler was faster
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
        """Write the narrowest of some pairs of clock readings."""
        half_width, raw, real = min(_clock_pair() for _ in range(5))
        with self.lock:
            place = self._reserve(1)
            if place is not None:
                place[0].commit(place[1], raw, real, half_width, 0, _ANCHOR)

    def _trim(self, segments: list[SegmentFile]) -> None:
        """Cut the unused end off the files of segments that no thread writes to any more. The caller holds the lock."""
        for segment in segments:
            saved = segment.trim()
            self.bytes -= saved
            self.account.change(-saved)

    # -- where files are not mapped

    def _copy(self, segments: list[SegmentFile]) -> None:
        """Copy segments to their files, no event before the strings that it names. The caller holds the lock."""
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
        """Copy all segments to their files if that was not done lately.

        Args:
            now: CLOCK_MONOTONIC_RAW.
        """
        if self._first.mapped or now - self._flushed_ns < FLUSH_NS:
            return
        with self.lock:
            self._flushed_ns = now
            self._copy(list(self._live))

    def close(self) -> None:
        """Write everything that is pending; segments in use by other threads stay until these release them."""
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
