"""Read a Perfetto trace with Perfetto's own classes: its tracks, slices, instants, counters and flows."""

import itertools
from dataclasses import dataclass, field

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent

CLOCK_REALTIME = 1


@dataclass
class Event:
    """A slice or an instant of a trace, with times in ns; the end of an instant is None.

    `begun` counts the events in the order in which they begin in the file. `depth` is the number of slices around the
    event.
    """

    track: int
    name: str
    category: str
    start: int
    begun: int
    end: int | None = None
    depth: int = 0
    args: dict = field(default_factory=dict)
    flows: list = field(default_factory=list)
    ends: list = field(default_factory=list)


@dataclass
class Timeline:
    """The content of a trace.

    Attributes:
        tracks: the track descriptors by uuid.
        slices: the slices in the order in which they begin in the file.
        instants: the instants in the order of the file.
        counters: (uuid of the track, time in ns, value) of each counter value.
    """

    tracks: dict = field(default_factory=dict)
    slices: list = field(default_factory=list)
    instants: list = field(default_factory=list)
    counters: list = field(default_factory=list)

    def lane(self, uuid):
        """Return the name of a track's process or group, and the name of its thread or lane."""
        track = self.tracks[uuid]
        if track.HasField("thread"):
            (process,) = (each for each in self.tracks.values() if each.process.pid == track.thread.pid)
            return process.process.process_name, track.thread.thread_name
        above = self.tracks[track.parent_uuid]
        if above.HasField("thread"):
            return self.lane(above.uuid)
        return above.process.process_name or above.name, track.name


class _Sequence:
    def __init__(self):
        self.now = self.track = None
        self.clock = 0
        self.names, self.categories, self.arguments, self.texts = {}, {}, {}, {}


def read(path):
    """Read a trace file and return its content as a Timeline."""
    trace = Trace()
    trace.ParseFromString(path.read_bytes())
    return timeline(trace)


def timeline(trace):
    """Return the content of a parsed trace as a Timeline."""
    found = Timeline()
    for each in _events(found, trace.packet):
        if isinstance(each, tuple):
            found.counters.append(each)
        else:
            (found.instants if each.end is None else found.slices).append(each)
    found.slices.sort(key=lambda each: each.begun)
    return found


def streamed(path):
    """Yield each event of a trace when it ends, with the tracks so far; the whole timeline is never in memory."""
    found = Timeline()
    for each in _events(found, _packets(path)):
        yield found, each


def _packets(path):
    """Yield the packets of a trace file; each packet is an occurrence of field 1 in the protocol buffer."""
    data, place = memoryview(path.read_bytes()), 0
    while place < len(data):
        assert data[place] == 10
        length, shift, place = 0, 0, place + 1
        while True:
            byte = data[place]
            length |= (byte & 127) << shift
            place, shift = place + 1, shift + 7
            if byte < 128:
                break
        yield TracePacket.FromString(data[place : place + length])
        place += length


def _events(found, packets):
    """Yield counter values, and slices and instants when they end; add the track descriptors to `found`."""
    sequences, open_slices, begun = {}, {}, itertools.count()
    for packet in packets:
        if packet.sequence_flags & TracePacket.SEQ_INCREMENTAL_STATE_CLEARED:
            sequences[packet.trusted_packet_sequence_id] = _Sequence()
        sequence = sequences[packet.trusted_packet_sequence_id]
        if packet.HasField("track_descriptor"):
            assert packet.track_descriptor.uuid not in found.tracks
            found.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        if packet.HasField("trace_packet_defaults"):
            sequence.track = packet.trace_packet_defaults.track_event_defaults.track_uuid
            sequence.clock = packet.trace_packet_defaults.timestamp_clock_id
        if packet.HasField("clock_snapshot"):
            clocks = {clock.clock_id: clock for clock in packet.clock_snapshot.clocks}
            assert clocks[sequence.clock].is_incremental
            sequence.now = clocks[CLOCK_REALTIME].timestamp
        if packet.HasField("interned_data"):
            data = packet.interned_data
            sequence.names.update((entry.iid, entry.name) for entry in data.event_names)
            sequence.categories.update((entry.iid, entry.name) for entry in data.event_categories)
            sequence.arguments.update((entry.iid, entry.name) for entry in data.debug_annotation_names)
            sequence.texts.update((entry.iid, entry.str.decode()) for entry in data.debug_annotation_string_values)
        if packet.HasField("track_event"):
            assert packet.sequence_flags & TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
            sequence.now += packet.timestamp
            ended = _event(sequence, packet.track_event, open_slices.setdefault(sequence.track, []), begun)
            if ended is not None:
                yield ended
    assert not any(open_slices.values())


def _event(sequence, event, stack, begun):
    """Return the counter value, the instant or the ended slice of a packet; None if a slice begins."""
    if event.type == TrackEvent.TYPE_COUNTER:
        return sequence.track, sequence.now, event.double_counter_value
    if event.type == TrackEvent.TYPE_SLICE_END:
        ended = stack.pop()
        ended.end = sequence.now
        return ended
    (category,) = event.category_iids
    made = Event(
        sequence.track,
        sequence.names[event.name_iid],
        sequence.categories[category],
        sequence.now,
        next(begun),
        depth=len(stack),
        args={
            sequence.arguments[each.name_iid]: sequence.texts[each.string_value_iid]
            if each.HasField("string_value_iid")
            else each.int_value
            if each.HasField("int_value")
            else each.bool_value
            for each in event.debug_annotations
        },
        flows=list(event.flow_ids),
        ends=list(event.terminating_flow_ids),
    )
    if event.type == TrackEvent.TYPE_SLICE_BEGIN:
        stack.append(made)
        return None
    assert event.type == TrackEvent.TYPE_INSTANT
    return made
