import gzip
import json

import polars as pl
import pytest
from ms_profiler.analysis.readers import trace_events, trace_text
from ms_profiler.store.reader import ReadCounts

EVENTS = [
    {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "Python"}},
    {"ph": "M", "name": "process_labels", "pid": 1, "tid": 0, "args": {"labels": "CPU"}},
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 7, "args": {"name": "main"}},
    {"ph": "X", "name": "a", "pid": 1, "tid": 7, "ts": "1736408883704643.212", "dur": 2.5, "args": {"x": 1.5}},
    {"ph": "X", "name": "b", "pid": 1, "tid": 7, "ts": 1736408883704644, "dur": "1"},
    {"ph": "s", "cat": "f", "id": 3, "pid": 1, "tid": 7, "ts": 5},
    {"ph": "f", "cat": "f", "id": 3, "pid": 2, "tid": 8, "ts": "6.5"},
    {"ph": "C", "name": "counter", "pid": 1, "ts": 1, "args": {"value": 3}},
]


@pytest.fixture(autouse=True, params=[5, 1 << 20])
def piece(request, monkeypatch):
    monkeypatch.setattr(trace_text, "_PIECE", request.param)


def read(tmp_path, content, name="trace.json"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    counts = ReadCounts()
    return trace_events.read(str(path), ("x",), counts), counts


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_lists_and_objects_packed_or_not(tmp_path, whole, packed):
    content = json.dumps({"schemaVersion": 1, "traceEvents": EVENTS} if whole else EVENTS).encode()
    events, counts = read(tmp_path, gzip.compress(content) if packed else content)
    assert not counts.damaged
    assert events.spans.select("name", "start_ns", "end_ns").rows() == [
        ("a", 1736408883704643212, 1736408883704645712),
        ("b", 1736408883704644000, 1736408883704645000),
    ]
    assert events.counters.rows() == [("1", "counter", 1000, 3.0)]
    assert events.flows.rows() == [(True, "f", "3", "7", 5000), (False, "f", "3", "8", 6500)]
    assert (events.processes, events.labels, events.threads) == ({"1": "Python"}, {"1": "CPU"}, {("1", "7"): "main"})
    assert events.arguments(events.spans, "x").to_list() == ["1.5", None]
    assert events.thread_names(events.spans).to_list() == ["main", "main"]
    assert events.of_process("Python").height == 2 and events.of_process("CANN").is_empty()
    assert events.head == ({"schemaVersion": 1} if whole else {})


def test_times_since_a_base(tmp_path):
    event = {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 10.25, "dur": 1}
    events, _ = read(tmp_path, json.dumps({"baseTimeNanoseconds": 1700000000000000001, "traceEvents": [event]}))
    assert events.spans["start_ns"].to_list() == [1700000000000010251]
    for base in ("x", 10**25, -(10**25), "9" * 30, True, None):
        events, _ = read(tmp_path, json.dumps({"baseTimeNanoseconds": base, "traceEvents": [event]}))
        assert events.spans["start_ns"].to_list() == [10250 + (base is True)]


def test_begins_and_ends_are_paired(tmp_path):
    rows = [("B", "outer", 1), ("B", "inner", 2.5), ("E", "", 4), ("E", "", 10), ("E", "", 11)]
    content = [{"ph": kind, "name": name, "pid": 1, "tid": 1, "ts": time} for kind, name, time in rows]
    events, counts = read(tmp_path, json.dumps(content))
    assert events.spans.select("name", "start_ns", "end_ns").rows() == [("outer", 1000, 10000), ("inner", 2500, 4000)]
    assert counts.damaged_events == 1  # an end without a begin


def test_an_event_without_end_is_unfinished_and_ends_with_the_trace(tmp_path):
    rows = [("B", "outer", 1), ("B", "inner", 2.5), ("E", "", 4), ("B", "last", 8), ("B", "never", "soon")]
    content = [{"ph": kind, "name": name, "pid": 1, "tid": 1, "ts": time} for kind, name, time in rows]
    content.append({"ph": "X", "name": "other", "pid": 1, "tid": 2, "ts": 5, "dur": 4})
    events, counts = read(tmp_path, json.dumps(content))
    assert events.spans.select("name", "start_ns", "end_ns", "unfinished").rows() == [
        ("outer", 1000, 9000, True),
        ("inner", 2500, 4000, False),
        ("other", 5000, 9000, False),
        ("last", 8000, 9000, True),
    ]
    assert counts.damaged_events == 1  # an event whose begin is no time


def test_complete_events_of_a_cut_file_are_read(tmp_path):
    content = json.dumps(EVENTS)
    events, counts = read(tmp_path, content[: content.index('"b"')])
    assert events.spans["name"].to_list() == ["a"]
    assert counts.damaged_files == [("trace.json", "no whole JSON; 4 events could be read")]
    events, counts = read(tmp_path, json.dumps({"traceEvents": EVENTS})[:-30])
    assert events.spans["name"].to_list() == ["a", "b"] and counts.damaged
    packed = gzip.compress(json.dumps(EVENTS * 500).encode())
    events, counts = read(tmp_path, packed[: len(packed) // 2])
    assert 0 < events.spans.height < 1000 and len(counts.damaged_files) == 2
    # a file may consist of several gzip files, one after the other
    events, counts = read(tmp_path, gzip.compress(b"[") + gzip.compress(json.dumps(EVENTS)[1:].encode()))
    assert events.spans.height == 2 and not counts.damaged


def test_a_damaged_event_loses_only_itself(tmp_path):
    content = json.dumps(EVENTS).replace('"name": "a", "pid": 1', '"name": "a", "pid": ,')
    events, counts = read(tmp_path, content)
    assert events.spans["name"].to_list() == ["b"] and counts.damaged


def test_invalid_events_are_counted(tmp_path):
    good = {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    bad = [
        3,
        None,
        {},
        {"ph": 1},
        {**good, "ts": "soon"},
        {**good, "ts": None},
        {**good, "dur": -1},
        {**good, "dur": True},
    ]
    events, counts = read(tmp_path, json.dumps([good, *bad, {"ph": "M", "name": "process_name", "pid": 1}]))
    assert events.spans.height == 1 and counts.damaged_events == len(bad)


@pytest.mark.parametrize("content", ["", "{", "[", "null", '{"traceEvents": 3}', "\x00" * 100, "[" * 100_000])
def test_a_file_that_is_no_trace_is_empty_and_reported(tmp_path, content):
    events, counts = read(tmp_path, content)
    assert events.spans.is_empty() and events.flows.is_empty() and counts.damaged_files


def test_a_text_is_cut_after_as_many_characters_wherever_it_is(tmp_path):
    long = "é" * (1 << 16)
    events = [
        {"ph": "X", "name": long + end, "pid": 1, "tid": 1, "ts": 5, "dur": 1, "args": {"x": long + end}}
        for end in ("", "a", "b" * (1 << 17))
    ]
    small = [{**EVENTS[3], "ts": number} for number in range(2000)]
    for content in (events, [*small, *events, *small]):
        found, counts = read(tmp_path, json.dumps(content, ensure_ascii=False))
        assert not counts.damaged
        spans = found.spans.filter(pl.col("name") != "a")
        assert spans["name"].to_list() == [long] * 3
