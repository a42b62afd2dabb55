"""The writer of one thread of the pure-Python recorder: its file of records (segment) and its open spans."""

import posix
from _io import open
from threading import get_ident, get_native_id
from typing import Final, NamedTuple

from ms_profiler import clock
from ms_profiler.job.recorder.python_store import PythonStore, Worth, utf8
from ms_profiler.job.recorder.segment_file import SegmentFile
from ms_profiler.store.format import NOT_READ, Flag, Kind

DEPTH_MOST: Final = 512
SERIAL_MASK: Final = (1 << 21) - 1
_DEPTH_BITS: Final = 9
_OPEN: Final = int(Kind.OPEN)
_SPAN: Final = int(Kind.SPAN)
_THREAD: Final = bytes((Kind.THREAD, 0, 0, 0))
#: A thread reads its processor time only when it records an event, in two cases: its last event was QUIET ns ago or
#: longer, or its last reading was LOOK ns ago or longer. native/writer.h does the same.
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
    """Write the events of one thread into files.

    The object is in thread-local storage, so that Python deletes it when the thread ends.

    Args:
        store: the files of this process.
        label: name of the thread; empty for the name by which Linux knows the thread.
    """

    def __init__(self, store: PythonStore, label: str) -> None:
        self.store = store
        self._label = label
        self._process = posix.getpid()
        self._number = 0
        self._wanted = store.first_slots
        self._segment: SegmentFile | None = None
        self._open: list[OpenSpan] = []
        self._event_ns = 0  # time of the last event
        self._due_ns = 0  # at the first event from this time on, the thread reads its processor time
        self._looked_ns = 0  # time of the last reading of the processor time
        self._serial = get_ident() * 0x9E3779B1 >> 4  # differs by thread, so that tokens differ, too

    def __del__(self) -> None:
        """End the open spans of the ended thread; in a fork child, do nothing, because the files are the parent's."""
        if self._segment is None or posix.getpid() != self._process or self.store.closed:
            return
        now = clock.raw_ns()
        while self._open:
            self._end_last(now, Flag.ABANDONED)
        self.store.leave_over(self._segment)

    def append(
        self, kind: int, category: int, flags: int, name: int, start_ns: int, end_ns: int, arg: int, worth: Worth
    ) -> tuple[SegmentFile, int] | None:
        """Write one record; return its segment and the number of its slot there, None if there is no room.

        Args:
            kind: kind of the record, `store.format.Kind`; the meaning of some fields depends on it.
            category: category of the event, `store.format.Category`.
            flags: `store.format.Flag` values.
            name: id of the record's name.
            start_ns: begin, ns.
            end_ns: end, ns.
            arg: argument of the record, an unsigned 64-bit number.
            worth: the priority of the event when disk space is short.
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
        self._introduce(segment)  # write the thread's name first: a signal handler may record before the next line
        full, self._segment = self._segment, segment
        if full is not None:
            self._settle(full)
        return segment

    def rename(self, label: str) -> None:
        """Write a new name of this thread, which applies to its later records.

        Args:
            label: the name; empty for the name by which Linux knows the thread.
        """
        self._label = label
        if self._segment is not None:
            self._introduce(self._segment)

    def _introduce(self, segment: SegmentFile) -> None:
        tid = get_native_id()
        text = utf8(self._label) or _system_name(tid)
        name = self.store.intern(text) if text else 0
        slot = segment.take()
        if slot < 0:
            return
        self.store.mark()
        if not self._number:
            self._number = self.store.new_thread()
        segment.commit(slot, clock.raw_ns(), tid, self._number, name, _THREAD)

    def _settle(self, segment: SegmentFile) -> None:
        """Release a full segment if it no longer holds the innermost open span, whose record still lacks its end."""
        if not self._open or self._open[-1].segment is not segment:
            self.store.retire(segment)

    def begin(self, name: int, category: int, arg: int, worth: Worth) -> int:
        """Begin a span on this thread and return its token; 0 if the span is not recorded."""
        if len(self._open) == DEPTH_MOST:
            self.store.drop(False)
            return 0
        start = clock.raw_ns()
        place = self.append(_OPEN, category, 0, name, start, 0, arg, worth)
        if place is None:
            return 0
        self._serial = serial = (self._serial + 1) & SERIAL_MASK or 1
        self._open.append(OpenSpan(*place, serial, category & 0xFF))
        self._passed(start)
        self.store.flush(start)
        return serial << _DEPTH_BITS | len(self._open) - 1

    def end(self, token: int, flags: int) -> None:
        """End the span of `token`; open spans that began after it end, too, with the flag `ABANDONED`."""
        now = clock.raw_ns()
        index, serial = token & (DEPTH_MOST - 1), token >> _DEPTH_BITS
        if index >= len(self._open) or self._open[index].serial != serial:
            return
        while len(self._open) > index + 1:
            self._end_last(now, Flag.ABANDONED)
        self._end_last(now, flags)
        self._passed(now)
        self.store.flush(now)

    def stepped(self, now: int) -> None:
        """Record the processor time of this thread at the end of a step, if it was last read `QUIET` ns ago or longer.

        Args:
            now: the current time, ns.
        """
        before, self._event_ns = self._event_ns, now
        if now - self._looked_ns >= QUIET:
            self._look(now, before)

    def _passed(self, now: int) -> None:
        """Note the time of an event of this thread; record the thread's processor time if that is due."""
        before, self._event_ns = self._event_ns, now
        if now - before >= QUIET or now >= self._due_ns:
            self._look(now, before)

    def _look(self, now: int, before: int) -> None:
        """Record the processor time of the thread so far. (The extension also records how long it waited for one.)"""
        self._due_ns, self._looked_ns = now + LOOK, now
        if not self.store.all_limit:
            ran = clock.thread_ns()
            if self.append(_PROCESSOR, 0, 0, NOT_READ, now, before or now, ran, Worth.COARSE) is not None:
                self.store.mark()  # this record is no event of the job

    def end_all(self) -> None:
        """End all open spans."""
        now = clock.raw_ns()
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
