"""The writer of one thread of the pure-Python recorder: its segment and its open spans."""

import os
import threading
import time
from typing import Final, NamedTuple

from ms_profiler.job.recorder.python_store import PythonStore, Worth, utf8
from ms_profiler.job.recorder.segment_file import SegmentFile, now_ns
from ms_profiler.store.format import NOT_READ, Flag, Kind

DEPTH_MOST: Final = 512
SERIAL_MASK: Final = (1 << 21) - 1
_DEPTH_BITS: Final = 9
_OPEN: Final = int(Kind.OPEN)
_SPAN: Final = int(Kind.SPAN)
_THREAD: Final = bytes((Kind.THREAD, 0, 0, 0))
#: At an event, a thread reads its processor time in two cases: its last event is QUIET ns ago or longer, or its last
#: reading is LOOK ns ago or longer. native/writer.h does the same.
QUIET: Final = 250_000
LOOK: Final = 5_000_000
_PROCESSOR: Final = int(Kind.PROCESSOR)


class OpenSpan(NamedTuple):
    """A span that has not ended; `serial` distinguishes it from earlier spans at the same depth of nesting."""

    segment: SegmentFile
    slot: int
    serial: int
    category: int


class PythonWriter:
    """Write the events of one thread into a store.

    The object is in thread-local storage, so that Python deletes it when the thread ends.

    Args:
        store: the open store.
        label: name of the thread; empty for the system's name.
    """

    def __init__(self, store: PythonStore, label: str) -> None:
        self.store = store
        self._label = label
        self._process = os.getpid()
        self._number = 0
        self._wanted = store.first_slots
        self._segment: SegmentFile | None = None
        self._open: list[OpenSpan] = []
        self._event_ns = 0  # time of the last event
        self._due_ns = 0  # an event at this time or later reads the processor time
        self._looked_ns = 0  # time of the last reading of the processor time
        self._serial = threading.get_ident() * 0x9E3779B1 >> 4  # differs by thread, so tokens do, too

    def __del__(self) -> None:
        """End the open spans of the ended thread; in a fork child, do nothing, because the files are the parent's."""
        if self._segment is None or os.getpid() != self._process or self.store.closed:
            return
        now = now_ns()
        while self._open:
            self._end_last(now, Flag.ABANDONED)
        self.store.leave_over(self._segment)

    def append(
        self, kind: int, category: int, flags: int, name: int, start_ns: int, end_ns: int, arg: int, worth: Worth
    ) -> tuple[SegmentFile, int] | None:
        """Commit one slot and return its segment and number; None if there is no room.

        Args:
            kind: see native/file_format.h.
            category: see native/file_format.h.
            flags: see native/file_format.h.
            name: see native/file_format.h.
            start_ns: see native/file_format.h.
            end_ns: see native/file_format.h.
            arg: see native/file_format.h.
            worth: the priority of the event.
        """
        last = bytes((kind, category & 0xFF, flags & 0xFF, 0))
        arg &= 0xFFFFFFFFFFFFFFFF
        name &= 0xFFFFFFFF
        segment = self._segment
        slot = segment.take() if segment is not None else -1
        while segment is None or slot < 0:
            segment = self._extend(worth)
            if segment is None:
                return None
            slot = segment.take()
        segment.commit(slot, start_ns, end_ns, arg, name, last)
        return segment, slot

    def _extend(self, worth: Worth) -> SegmentFile | None:
        segment = self.store.take(self._wanted, worth, self._segment is None)
        if segment is None:
            return None
        self._wanted *= 2
        self._introduce(segment)  # before any other record, because a signal handler may record between any two lines
        full, self._segment = self._segment, segment
        if full is not None:
            self._settle(full)
        return segment

    def rename(self, label: str) -> None:
        """Write a new name of this thread, which its later records have.

        Args:
            label: the name; empty for the system's name.
        """
        self._label = label
        if self._segment is not None:
            self._introduce(self._segment)

    def _introduce(self, segment: SegmentFile) -> None:
        tid = threading.get_native_id()
        text = utf8(self._label) or _system_name(tid)
        name = self.store.intern(text) if text else 0
        slot = segment.take()
        if slot < 0:
            return
        self.store.mark()
        if not self._number:
            self._number = self.store.new_thread()
        segment.commit(slot, now_ns(), tid, self._number, name, _THREAD)

    def _settle(self, segment: SegmentFile) -> None:
        """Release a full segment, unless the innermost open span is in it."""
        if not self._open or self._open[-1].segment is not segment:
            self.store.retire(segment)

    def begin(self, name: int, category: int, arg: int, worth: Worth) -> int:
        """See `Recorder.begin`."""
        if len(self._open) == DEPTH_MOST:
            self.store.drop(False)
            return 0
        start = now_ns()
        place = self.append(_OPEN, category, 0, name, start, 0, arg, worth)
        if place is None:
            return 0
        self._serial = serial = (self._serial + 1) & SERIAL_MASK or 1
        self._open.append(OpenSpan(*place, serial, category & 0xFF))
        self._passed(start)
        self.store.flush(start)
        return serial << _DEPTH_BITS | len(self._open) - 1

    def end(self, token: int, flags: int) -> None:
        """See `Recorder.end`."""
        now = now_ns()
        index, serial = token & (DEPTH_MOST - 1), token >> _DEPTH_BITS
        if index >= len(self._open) or self._open[index].serial != serial:
            return
        while len(self._open) > index + 1:
            self._end_last(now, Flag.ABANDONED)
        self._end_last(now, flags)
        self._passed(now)
        self.store.flush(now)

    def stepped(self, now: int) -> None:
        """Record the processor time of this thread at the end of a step, unless it was read less than `QUIET` ns ago.

        Args:
            now: the current time, ns.
        """
        before, self._event_ns = self._event_ns, now
        if now - self._looked_ns >= QUIET:
            self._look(now, before)

    def _passed(self, now: int) -> None:
        """Note an event of this thread; record the thread's processor time if it is due."""
        before, self._event_ns = self._event_ns, now
        if now - before >= QUIET or now >= self._due_ns:
            self._look(now, before)

    def _look(self, now: int, before: int) -> None:
        """Record the processor time of the thread so far; the extension also records its waits for a processor."""
        self._due_ns, self._looked_ns = now + LOOK, now
        if not self.store.all_limit:
            ran = time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID)
            if self.append(_PROCESSOR, 0, 0, NOT_READ, now, before or now, ran, Worth.COARSE) is not None:
                self.store.mark()  # this record is no event of the job

    def end_all(self) -> None:
        """End all open spans."""
        now = now_ns()
        while self._open:
            self._end_last(now, 0)

    def _end_last(self, now: int, flags: int) -> None:
        span = self._open.pop()
        span.segment.end(span.slot, now, bytes((_SPAN, span.category, flags & 0xFF, 0)))
        if span.segment is not self._segment:
            self._settle(span.segment)


def _system_name(tid: int) -> bytes:
    try:
        with open(f"/proc/self/task/{tid}/comm", "rb") as stream:
            # the system may have cut the name inside a character
            return stream.read().rstrip(b"\n").decode("utf-8", "ignore").encode("utf-8")
    except OSError:
        return b""
