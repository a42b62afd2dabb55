"""Records that a process wrote and that no file has are counted, and the gate does not compare such a run."""

import json
import os

import pytest
from ms_profiler import cli
from ms_profiler.analysis.driver import engine
from ms_profiler.gate import exits, sides
from ms_profiler.store import format as fmt, layout
from ms_profiler.store.format import Category, Kind
from store_builder import MS, RAW_NS, training

#: file of the middle part of the records
MIDDLE = 2


def made(parent, state="ended"):
    """Write a run whose main thread fills three files, and return the store. The process has counted its records."""
    store = training(parent, steps=10)
    process = store.processes[0]
    first = process.segments[1]
    slots = bytes(first.slots)
    third = len(slots) // 3 // fmt.SLOT_SIZE * fmt.SLOT_SIZE
    head = slots[: fmt.SLOT_SIZE]
    del first.slots[third:]
    for part in (slots[third : 2 * third], slots[2 * third :]):
        segment = process.new_segment(capacity=4096)
        segment.slots += part[:8] + head[8:] + part  # the first slot names the thread, at the time of the next one
    process.info.state, process.info.end = (state, "exit") if state == "ended" else (state, "")
    process.info.records = len(slots) // fmt.SLOT_SIZE - 1
    if state == "ended":
        for segment in process.segments[1:]:
            segment.capacity = len(segment.slots) // fmt.SLOT_SIZE
    store.write()
    return store


def cut(path):
    """Shorten a file to its header and five slots."""
    os.truncate(path, fmt.HEADER_SIZE + 5 * fmt.SLOT_SIZE)


def emptied(path):
    path.write_bytes(b"")


def summary(store):
    (result,) = engine.analyse([store.path])
    return json.loads((store.path / layout.SUMMARY).read_text()), result.warning


@pytest.mark.parametrize("state", ["ended", "running"])
def test_an_undamaged_run_lacks_nothing(tmp_path, state):
    found, warning = summary(made(tmp_path, state))
    assert warning == "" and found["completeness"]["missing_records"] == 0 and not found["completeness"]["lost_windows"]


@pytest.mark.parametrize(
    ("harm", "says", "left"),
    [(os.unlink, "000002.seg is missing", 0), (emptied, "000002.seg is empty", 0), (cut, "000002.seg is cut", 4)],
)
def test_records_that_no_file_has(tmp_path, capsys, harm, says, left):
    store = made(tmp_path)
    path = store.segment_path(store.processes[0], MIDDLE)
    lost = len(store.processes[0].segments[MIDDLE].slots) // fmt.SLOT_SIZE - 1 - left
    harm(path)
    found, warning = summary(store)
    text = f"at least {lost} records of process 4242 are in no file (process_4242/{says})"
    assert warning == text
    assert found["completeness"]["missing_records"] == lost
    (window,) = found["completeness"]["lost_windows"]
    assert (window["what"], window["records"]) == (text, lost)
    assert 0 <= window["from_s"] < window["to_s"] <= 0.26
    assert cli.main(["gate", "--runs", str(made(tmp_path / "whole").path), "--versus", str(store.path)]) == 3
    assert f"{lost} records or files that cannot be read" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("harm", "says"), [(os.unlink, "is missing"), (emptied, "is empty"), (cut, "is cut")], ids=["gone", "empty", "cut"]
)
def test_a_killed_process_lacks_a_file(tmp_path, harm, says):
    store = made(tmp_path, "running")
    harm(store.segment_path(store.processes[0], MIDDLE))
    found, warning = summary(store)
    assert warning == f"some records of process 4242 are in no file (process_4242/000002.seg {says})"
    assert [window["pid"] for window in found["completeness"]["lost_windows"]] == [4242]


@pytest.mark.parametrize(("age_ms", "lacks"), [(20, False), (250, True)])
def test_a_file_that_a_killed_process_was_making_is_empty(tmp_path, age_ms, lacks):
    """Two threads made files at the same time: one file has no size yet, the next one has records."""
    store = made(tmp_path, "running")
    process = store.processes[0]
    emptied(store.segment_path(process, MIDDLE))
    newest = store.segment_path(process, MIDDLE + 1)
    content = bytearray(newest.read_bytes())
    times = [slot[0] for slot in fmt.SLOT.iter_unpack(content[fmt.HEADER_SIZE :]) if slot[0] < fmt.LATEST_NS]
    header = list(fmt.HEADER.unpack_from(content))
    header[8] = max(times) - age_ms * MS
    fmt.HEADER.pack_into(content, 0, *header)
    newest.write_bytes(content)
    _, warning = summary(store)
    assert bool(warning) is lacks


def test_a_process_may_remove_a_file_that_it_did_not_use(tmp_path):
    store = made(tmp_path)
    spare = store.segment_path(store.processes[0], MIDDLE)
    spare.rename(spare.with_name("000007.seg"))
    assert summary(store)[1] == ""


def test_refused_records_are_not_missing(tmp_path):
    store = made(tmp_path)
    process = store.processes[0]
    process.info.records += 7
    process.info.dropped = 7  # the disk had no room for what was in memory
    store.write()
    found, warning = summary(store)
    assert warning == "" and (found["completeness"]["dropped"], found["completeness"]["missing_records"]) == (7, 0)


ODD = {
    "thread": (Kind.THREAD, RAW_NS, 2**64 - 5, 1, 1),
    "category": (Kind.SPAN, RAW_NS + 9, RAW_NS + 10, 0, 1, 40),
    "source of a step": (Kind.STEP, RAW_NS + 9, RAW_NS + 10, 3, 0, 77),
    "number of a step": (Kind.STEP, RAW_NS + 9, RAW_NS + 10, 2**63, 0, 1),
    "processor time": (Kind.PROCESSOR, RAW_NS + 9, RAW_NS + 8, 2**64 - 1),
}
LATE = RAW_NS + 3600 * 10**9
TIMES = {
    "span": (Kind.SPAN, RAW_NS + 9, LATE, 0, 1, Category.FORWARD),
    "operator": (Kind.SPAN, LATE, LATE + 1, 0, 1, Category.OP),
    "step": (Kind.STEP, RAW_NS, LATE, 3, 0, 1),
    "thread": (Kind.THREAD, LATE, 1, 1, 1),
}


@pytest.mark.parametrize(
    ("record", "what"),
    [*((each, "numbers") for each in ODD.values()), *((each, "times") for each in TIMES.values())],
    ids=[*(f"odd {name}" for name in ODD), *(f"late {name}" for name in TIMES)],
)
def test_impossible_records_are_left_out_and_counted(tmp_path, record, what):
    store = made(tmp_path)
    whole, _ = summary(store)
    store.processes[0].segments[MIDDLE].capacity = 0
    store.processes[0].segments[MIDDLE].add(*record)
    store.write()
    found, warning = summary(store)
    assert warning == f"1 records with impossible {what}"
    for part in ("steps", "phases", "top_operators", "modules"):
        assert found[part] == whole[part], part


def test_a_thread_without_its_slot_keeps_its_counters(tmp_path):
    store = made(tmp_path)
    thread = store.processes[0].thread(3, "other", 78)
    thread.counter("rss", 150 * MS, 5.0)
    thread.segment.slots[8:16] = b"\xff" * 8  # the system's id of the thread
    store.write()
    assert summary(store)[1] == "1 records with impossible numbers"


def test_an_unexpected_error_is_not_a_regression(tmp_path, monkeypatch, capsys):
    def failing(*_):
        raise ValueError("a\nb")

    monkeypatch.setattr(sides, "read", failing)
    path = str(made(tmp_path).path)
    assert cli.main(["gate", "--runs", path, "--versus", path]) == exits.FAILED == 5
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ms-profiler: The gate has no verdict, because it failed: ValueError: a")
