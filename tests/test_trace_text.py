import gzip
import json
import subprocess
import sys

import pytest
from ms_profiler.analysis.readers import trace_text
from ms_profiler.analysis.readers.trace_text import TraceText
from ms_profiler.store.reader import ReadCounts

EVENTS = [
    {"ph": "X", "name": 'a "}], [{ b', "ts": 1, "args": {"text": "\\ \u20ac \U0001f600", "list": [{"ph": 1}, {}]}},
    {"ph": "X", "name": "é" * 300, "ts": "2.500", "dur": "x" * 5000},
    3,
    None,
    [],
    {},
    {"ph": "X", "ts": -12.5e3},
]
READ = json.loads(json.dumps(EVENTS), parse_float=str)
HEAD = {
    "number": 12345,
    "fraction": 1.5,
    "small": 1e-5,
    "large": -1e300,
    "device": [{"name": "x"}],
    "text": "traceEvents",
    "none": None,
}


def read(path, content):
    path.write_bytes(content)
    counts = ReadCounts()
    text = TraceText(str(path), counts)
    return [event for events in text.lists() for event in events], text.head, counts


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 64, 1 << 20])
@pytest.mark.parametrize("plain", [False, True])
def test_the_ends_of_pieces_do_not_change_the_result(tmp_path, monkeypatch, piece, plain):
    monkeypatch.setattr(trace_text, "_PIECE", piece)
    for content, head in (
        (json.dumps(EVENTS, ensure_ascii=plain), {}),
        (json.dumps(EVENTS, ensure_ascii=plain, indent=40 if plain else 1), {}),
        (json.dumps({**HEAD, "traceEvents": EVENTS, "last": 7}, ensure_ascii=plain) + "\n", {**HEAD, "last": 7}),
        (json.dumps({"traceEvents": []}), {}),
    ):
        head = json.loads(json.dumps(head), parse_float=str)
        expected = READ if "ph" in content else []
        raw = content.encode()
        for packed in (raw, gzip.compress(raw), gzip.compress(raw[:9]) + gzip.compress(raw[9:])):
            events, found, counts = read(tmp_path / "trace.json", packed)
            assert (events, found, counts.damaged_files) == (expected, head, [])


@pytest.mark.parametrize("piece", [7, 64, 1 << 16])
def test_files_of_gzip_one_behind_the_other_are_read_once_each(tmp_path, monkeypatch, piece):
    # a piece at the end of one gzip file also holds the begin of the next
    monkeypatch.setattr(trace_text, "_PIECE", piece)
    numbers = list(range(20_000))
    raw = json.dumps(numbers).encode()
    packed = b"".join(gzip.compress(raw[start : start + 30_000]) for start in range(0, len(raw), 30_000))
    events, _, counts = read(tmp_path / "trace.json", packed)
    assert (events, counts.damaged_files) == (numbers, [])


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_the_head_of_a_cut_file_is_read(tmp_path, monkeypatch, piece):
    monkeypatch.setattr(trace_text, "_PIECE", piece)
    content = json.dumps({**HEAD, "traceEvents": EVENTS})
    events, head, counts = read(tmp_path / "trace.json", content[: content.index("-12500")].encode())
    assert (events, head) == (READ[:-1], json.loads(json.dumps(HEAD), parse_float=str))
    assert counts.damaged_files == [("trace.json", "no whole JSON; 2 events could be read")]


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1 << 20])
def test_halves_of_surrogate_pairs_are_replaced_and_pairs_are_not(tmp_path, monkeypatch, piece):
    monkeypatch.setattr(trace_text, "_PIECE", piece)
    name = {"a\ud83d": ["\ud800 \U0001f600", 1]}
    content = json.dumps({"own": name, "traceEvents": [{"ph": "X", "args": name}]}).encode()
    whole = {"a?": ["? \U0001f600", 1]}
    events, head, counts = read(tmp_path / "trace.json", content)
    assert (events, head, counts.damaged_files) == ([{"ph": "X", "args": whole}], {"own": whole}, [])


def test_text_behind_the_end_is_said(tmp_path):
    events, _, counts = read(tmp_path / "trace.json", json.dumps(EVENTS).encode() + b" x")
    assert events == READ
    assert counts.damaged_files == [("trace.json", "no whole JSON; 3 events could be read")]


def test_an_integer_too_long_for_python_costs_its_event_alone(tmp_path):
    good = json.dumps(EVENTS[0])
    content = f'[{good}, {{"ph": "X", "args": {{"x": {"9" * 5000}}}}}, {good}]'
    events, _, counts = read(tmp_path / "trace.json", content.encode())
    assert events == READ[:1] * 2
    assert counts.damaged_files == [("trace.json", "no whole JSON; 2 events could be read")]


def test_a_value_that_never_ends_costs_itself_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(trace_text, "_LONGEST", 1 << 12)
    monkeypatch.setattr(trace_text, "_PIECE", 1 << 10)
    good = json.dumps(EVENTS[0])
    content = f'[{good}, {{"ph": "X", "name": "{"x" * (1 << 16)}, {good}]'
    events, _, counts = read(tmp_path / "trace.json", content.encode())
    assert events == READ[:1] * 2 and counts.damaged_files


MEMORY = """
import resource, sys
from ms_profiler.analysis.readers.trace_text import TraceText
from ms_profiler.store.reader import ReadCounts
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
count = sum(map(len, TraceText(sys.argv[1], ReadCounts()).lists()))
print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_is_not_held_in_memory(tmp_path, packed):
    path = tmp_path / "trace.json"
    event = json.dumps({"ph": "X", "name": "a", "ts": 1, "dur": 1, "args": {"Call stack": "file.py(1): f;" * 300}})
    with (gzip.open if packed else open)(path, "wt") as stream:
        stream.write("[" + ",".join([event] * 1000))
        for _ in range(19):
            stream.write("," + ",".join([event] * 1000))
        stream.write("]")
    run = subprocess.run([sys.executable, "-c", MEMORY, path], capture_output=True, text=True, check=True)
    count, kilobytes = map(int, run.stdout.split())
    assert count == 20_000
    assert kilobytes < 24 << 10  # the text has 82 MB


@pytest.mark.parametrize("name", ["a", "\ud800", "a" * (trace_text.TEXT + 1)])
def test_values_are_nested_as_deeply_as_json_can_be(tmp_path, name):
    deep = "[" * 700 + "1" + "]" * 700
    event = {"ph": "X", "name": name, "ts": 1, "args": 0}
    content = json.dumps({"traceEvents": [event, event]}).replace('"args": 0', f'"args": {deep}')
    events, _, counts = read(tmp_path / "trace.json", content.encode())
    assert not counts.damaged_files
    assert [event["name"] for event in events] == [name.replace("\ud800", "?")[: trace_text.TEXT]] * 2
