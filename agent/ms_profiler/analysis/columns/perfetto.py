"""Write Perfetto's track events in pure Python, as native/columns/perfetto.c does in C.

Each field takes about a microsecond. The messages are TracePacket, TrackEvent and InternedData of protos/perfetto/trace
in github.com/google/perfetto.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from ms_profiler.analysis.columns.row_parts import Choice, Integer
from ms_profiler.analysis.columns.track_events import Argument, EventKind, Place, Track, TrackEvents
from ms_profiler.analysis.columns.wire import double, fixed64, integer, message

_STATE_CLEARED: Final = 1
_NEEDS_STATE: Final = 2
_REALTIME: Final = 1
_BOOTTIME: Final = 6
_SEQUENCE_CLOCK: Final = 64
_SLICE_END: Final = 2
_TYPES: Final = {EventKind.SLICE: 1, EventKind.INSTANT: 3, EventKind.COUNTER: 4}
#: numbers of the fields of the message InternedData
_CATEGORY: Final = 1
_NAME: Final = 2
_ARGUMENT: Final = 3
_TEXT: Final = 29


def write(to: Callable[[bytes], object], place: Place, events: TrackEvents) -> int:
    """Write events, and return the number of the first free sequence of packets.

    Args:
        to: the file that receives the bytes.
        place: the tracks of the trace, and the numbers for new packets and tracks.
        events: all events to write.
    """
    return _Writer(to, place, events).run()


@dataclass
class _Sequence:
    """A sequence of packets in the file, with the time of the last packet, open slices and declared texts."""

    number: int
    last_ns: int
    ends: list[int] = field(default_factory=list)
    known: set[tuple[int, int]] = field(default_factory=set)


class _Writer:
    def __init__(self, to: Callable[[bytes], object], place: Place, events: TrackEvents) -> None:
        self.to, self.place, self.events = to, place, events
        self.next = place.sequence
        self.sequences: list[_Sequence] = []
        self.tables = events.tables
        firsts = [1]
        for table in self.tables[2:]:
            firsts.append(firsts[-1] + len(table))
        self.arguments = [
            (name, firsts[events.table_of(part) - 2] if isinstance(part, Choice) else 0, part, _values(part))
            for name, part in events.arguments.items()
        ]
        self.flows: dict[int, bytes] = {}
        for event, number, ends in events.flows.iter_rows():
            self.flows[event] = self.flows.get(event, b"") + fixed64(48 if ends else 47, number)

    def run(self) -> int:
        events, last = self.events, None
        ends = events.start_ns if events.end_ns is None else events.end_ns
        for row, (track, start, end) in enumerate(zip(events.track, events.start_ns, ends, strict=True)):
            if track != last:
                self._finish()
                last = track
            on = self._fitting(self.place.tracks[track], start, end)
            self._event(on, row, start)
            if events.kind == EventKind.SLICE:
                on.ends.append(end)
        self._finish()
        return self.next

    def _finish(self) -> None:
        for sequence in self.sequences:
            while sequence.ends:
                self._end(sequence)
        self.sequences = []

    def _fitting(self, track: Track, start: int, end: int) -> _Sequence:
        for sequence in self.sequences:
            while sequence.ends and sequence.ends[-1] <= start:
                self._end(sequence)
            if not sequence.ends or sequence.ends[-1] >= end:
                return sequence
        return self._begin(track)

    def _begin(self, track: Track) -> _Sequence:
        number, base = self.next, self.place.base_ns
        self.next += self.place.stride
        crossing = bool(self.sequences) or self.place.further
        uuid = self.place.crossing_uuid + number if crossing else track.uuid
        clocks = [
            message(1, integer(1, clock), integer(2, base), integer(3, 1) if clock == _SEQUENCE_CLOCK else b"")
            for clock in (_REALTIME, _BOOTTIME, _SEQUENCE_CLOCK)
        ]
        defaults = message(59, message(11, integer(11, uuid)), integer(58, _SEQUENCE_CLOCK))
        self.to(message(1, integer(10, number), integer(13, _STATE_CLEARED), defaults, message(6, *clocks)))
        if crossing:
            self.to(message(1, integer(10, number), message(60, integer(1, uuid), track.crossing)))
        self.sequences.append(_Sequence(number, base))
        return self.sequences[-1]

    def _packet(self, on: _Sequence, time_ns: int, *fields: bytes) -> None:
        head = integer(8, time_ns - on.last_ns), integer(10, on.number), integer(13, _NEEDS_STATE)
        on.last_ns = time_ns
        self.to(message(1, *head, *fields))

    def _end(self, on: _Sequence) -> None:
        self._packet(on, on.ends.pop(), message(11, integer(9, _SLICE_END)))

    def _event(self, on: _Sequence, row: int, start: int) -> None:
        events = self.events
        fields, interned = [integer(9, _TYPES[events.kind])], b""
        if events.value is not None:
            fields.append(double(44, events.value[row]))
        if events.name is not None and events.category is not None:
            name, category = events.name.index[row], events.category.index[row]
            interned += _first(on, _NAME, name + 1, self.tables[0][name])
            interned += _first(on, _CATEGORY, category + 1, self.tables[1][category])
            fields += [integer(10, name + 1), integer(3, category + 1)]
        for number, (title, first, part, values) in enumerate(self.arguments, 1):
            value = values[row]
            if value is None or value is False:
                continue
            interned += _first(on, _ARGUMENT, number, title)
            if isinstance(part, Choice):
                interned += _first(on, _TEXT, first + value, part.texts.list[value] or "")
                content = integer(17, first + value)
            else:
                content = integer(4 if isinstance(part, Integer) else 2, value)
            fields.append(message(4, integer(1, number), content))
        data = [message(12, interned)] if interned else []
        self._packet(on, start, *data, message(11, *fields, self.flows.get(row, b"")))


def _values(part: Argument) -> list[Any]:
    return (part.index if isinstance(part, Choice) else part.values).to_list()


def _first(on: _Sequence, kind: int, iid: int, text: str) -> bytes:
    """Return the message that declares a text. If the sequence has declared the text already, return no bytes."""
    if (kind, iid) in on.known:
        return b""
    on.known.add((kind, iid))
    return message(kind, integer(1, iid), message(2, text.encode()))
