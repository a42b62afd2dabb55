import random

import polars as pl
import pytest
from ms_profiler.analysis.columns import COLUMNS, Integer, Texts
from ms_profiler.analysis.columns.plain import PlainColumns
from ms_profiler.analysis.columns.track_events import FLOWS, EventKind, Place, Track, TrackEvents, Truth
from ms_profiler.analysis.columns.wire import text
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace
from perfetto_reader import timeline

BASE = 1_760_000_000_123_456_789
TRACKS = [Track(uuid, text(2, f"track {uuid}")) for uuid in (100, 2**40)]
PLACE = Place(TRACKS, BASE, 3, 2**32)
LONG = "a text that takes more than the one byte for its length " * 400


def written(columns, events, place=PLACE):
    pieces = []
    following = columns.track_events(pieces.append, place, events)
    return b"".join(pieces), following


def decoded(content):
    """Parse a trace from bytes; add the descriptors of tracks that only the caller describes."""
    trace = Trace()
    trace.packet.add(trusted_packet_sequence_id=1, sequence_flags=1)
    for track in TRACKS:
        trace.packet.add(trusted_packet_sequence_id=1).track_descriptor.uuid = track.uuid
    trace.MergeFromString(content)
    return timeline(trace)


def series(values, kind):
    return pl.Series(values, dtype=kind)


def random_events(seed, kind=EventKind.SLICE, count=400):
    generator = random.Random(seed)
    rows = []
    for _ in range(count):
        start = BASE + generator.randrange(2000)
        rows.append((generator.randrange(2), start, start + generator.choice([0, 1, 7, generator.randrange(900)])))
    rows.sort(key=lambda row: (row[0], row[1], -row[2]))

    def some(most):
        return [generator.choice([None, generator.randrange(most)]) for _ in rows]

    names = Texts(["", "größe \U0001f600", LONG, *(f"name {number}" for number in range(300))])
    shapes = Texts(["4,8", "", LONG])
    flows = sorted((generator.randrange(count), number, generator.random() < 0.5) for number in range(150))
    return TrackEvents(
        kind=kind,
        track=series([row[0] for row in rows], pl.UInt32),
        start_ns=series([row[1] for row in rows], pl.Int64),
        end_ns=series([row[2] for row in rows], pl.Int64) if kind == EventKind.SLICE else None,
        name=names.at(series([generator.randrange(303) for _ in rows], pl.UInt32)),
        category=Texts(["op", "module"]).at(series([generator.randrange(2) for _ in rows], pl.UInt32)),
        arguments={
            "step": Integer(series([None if row is None else row - 1 for row in some(2**40)], pl.Int64)),
            "shapes": shapes.at(series(some(3), pl.UInt32)),
            "module": names.at(series(some(303), pl.UInt32)),
            "also": shapes.at(series(some(3), pl.UInt32)),
            "raised": Truth(series([generator.random() < 0.2 for _ in rows], pl.Boolean)),
        },
        flows=pl.DataFrame(flows, schema=FLOWS, orient="row"),
    )


def counters():
    return TrackEvents(
        kind=EventKind.COUNTER,
        track=series([0, 0, 1], pl.UInt32),
        start_ns=series([BASE, BASE + 300, BASE + 5], pl.Int64),
        value=series([1.5, -0.1, 2.0**70], pl.Float64),
    )


@pytest.mark.parametrize("kind", [EventKind.SLICE, EventKind.INSTANT])
@pytest.mark.parametrize("seed", range(5))
def test_extension_and_python_write_the_same_bytes(kind, seed):
    assert COLUMNS.kind == "native"
    events = random_events(seed, kind)
    assert written(COLUMNS, events) == written(PlainColumns(), events)


def test_both_write_the_same_counters():
    assert written(COLUMNS, counters()) == written(PlainColumns(), counters())
    found = decoded(written(COLUMNS, counters())[0])
    assert found.counters == [(100, BASE, 1.5), (100, BASE + 300, -0.1), (2**40, BASE + 5, 2.0**70)]


@pytest.mark.parametrize("kind", [EventKind.SLICE, EventKind.INSTANT])
def test_perfettos_own_classes_read_every_event(kind):
    events = random_events(11, kind)
    found = decoded(written(COLUMNS, events)[0])
    arguments = {
        "step": events.arguments["step"].values.to_list(),
        "raised": [value or None for value in events.arguments["raised"].values],
        **{
            name: [
                None if row is None else events.arguments[name].texts.list[row] for row in events.arguments[name].index
            ]
            for name in ("shapes", "module", "also")
        },
    }
    flows = events.flows.rows()
    expected = [
        (
            events.name.texts.list[events.name.index[row]],
            events.category.texts.list[events.category.index[row]],
            events.start_ns[row],
            None if events.end_ns is None else events.end_ns[row],
            {name: values[row] for name, values in arguments.items() if values[row] is not None},
            [number for event, number, ends in flows if event == row and not ends],
            [number for event, number, ends in flows if event == row and ends],
        )
        for row in range(len(events.track))
    ]
    got = found.slices if kind == EventKind.SLICE else found.instants
    key = repr
    assert sorted(((e.name, e.category, e.start, e.end, e.args, e.flows, e.ends) for e in got), key=key) == sorted(
        expected, key=key
    )


def test_slices_of_a_track_nest_and_overlapping_ones_have_their_own():
    found = decoded(written(COLUMNS, random_events(2))[0])
    for track in {each.track for each in found.slices}:
        open_ends = []
        for each in (each for each in found.slices if each.track == track):
            while open_ends and open_ends[-1] <= each.start:
                open_ends.pop()
            assert not open_ends or open_ends[-1] >= each.end
            assert each.depth == len(open_ends)
            open_ends.append(each.end)
    further = [track for uuid, track in found.tracks.items() if 2**32 < uuid < 2**33]
    assert further and {track.name for track in further} == {"track 100", f"track {2**40}"}


def test_slices_that_nest_need_one_track():
    events = TrackEvents(
        kind=EventKind.SLICE,
        track=series([0] * 5, pl.UInt32),
        start_ns=series([BASE, BASE, BASE, BASE + 5, BASE + 10], pl.Int64),
        end_ns=series([BASE + 10, BASE + 5, BASE, BASE + 10, BASE + 10], pl.Int64),
        name=Texts(list("abcde")).at(series(range(5), pl.UInt32)),
        category=Texts(["op"]).at(series([0] * 5, pl.UInt32)),
    )
    content, following = written(COLUMNS, events)
    found = decoded(content)
    assert following == PLACE.sequence + 1
    assert [(each.name, each.depth) for each in found.slices] == [("a", 0), ("b", 1), ("c", 2), ("d", 1), ("e", 0)]


@pytest.mark.parametrize(
    ("track", "start", "end", "name"), [(2, 0, 1, 0), (0, -1, 1, 0), (0, 5, 4, 0), (0, 0, 1, 1)], ids=str
)
def test_values_out_of_range_are_refused(track, start, end, name):
    events = TrackEvents(
        kind=EventKind.SLICE,
        track=series([track], pl.UInt32),
        start_ns=series([BASE + start], pl.Int64),
        end_ns=series([BASE + end], pl.Int64),
        name=Texts(["a"]).at(series([name], pl.UInt32)),
        category=Texts(["op"]).at(series([0], pl.UInt32)),
    )
    with pytest.raises(ValueError, match="out of range"):
        written(COLUMNS, events)


def test_an_error_of_the_file_is_that_of_the_caller():
    def full(_):
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        COLUMNS.track_events(full, PLACE, random_events(1))
