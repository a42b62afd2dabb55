import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from ms_profiler.analysis.catalogue import query, table_cache
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.readers import foreign, trace_cache, trace_events
from ms_profiler.store.reader import ReadCounts
from polars.testing import assert_frame_equal

ARGUMENTS = ("stream", "correlation")


@pytest.fixture
def trace(tmp_path, monkeypatch):
    """Return a trace that the cache accepts, with threads, flows, counters and a name that is no UTF-8 text."""
    monkeypatch.setattr(trace_cache, "LEAST", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "a.json"
    write(path, "first")
    return path


def write(path, name, age_s=60):
    place = {"pid": 1, "tid": 2}
    events = [
        {"ph": "X", "cat": "cpu_op", "name": name, "ts": "1.001", "dur": 5, "args": {"stream": 7}} | place,
        {"ph": "X", "cat": "cpu_op", "name": "other \u00e9", "ts": 2, "dur": 1, "args": {"wrong": 7}} | place,
        {"ph": "s", "cat": "ac2g", "name": "a", "id": 3, "ts": 1} | place,
        {"ph": "C", "name": "memory", "ts": 1, "args": {"bytes": 12}} | place,
        {"ph": "M", "name": "thread_name", "args": {"name": "main"}} | place,
        {"ph": "M", "name": "process_labels", "args": {"labels": "CPU"}} | place,
    ]
    path.write_text(json.dumps({"traceEvents": events, "distributedInfo": {"rank": 3}}))
    os.utime(path, (time.time() - age_s,) * 2)


def read(path):
    return trace_cache.read(str(path), ARGUMENTS, ReadCounts())


def folders(tmp_path):
    return sorted(path.name for path in tmp_path.rglob("*") if (path / "rest.json").exists())


def test_the_cache_returns_the_tables_that_were_read(trace, tmp_path, monkeypatch):
    first = read(trace)
    assert len(folders(tmp_path)) == 1
    monkeypatch.setattr(trace_events, "read", None)  # must not be called
    again = read(trace)
    for name in ("spans", "flows", "counters", "found"):
        assert_frame_equal(getattr(again, name), getattr(first, name))
    for name in ("processes", "labels", "threads", "head"):
        assert getattr(again, name) == getattr(first, name) != ({} if name != "processes" else None)
    assert again.spans["name"].to_list() == ["first", "other \u00e9"]


def test_it_is_never_stale(trace, tmp_path):
    assert "first" in read(trace).spans["name"]
    before = os.stat(trace)
    write(trace, "other")
    # the new trace has the size and the time of the old one
    os.utime(trace, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert os.stat(trace).st_size == before.st_size
    assert "other" in read(trace).spans["name"]
    write(tmp_path / "b.json", "third")
    os.replace(tmp_path / "b.json", trace)
    assert "third" in read(trace).spans["name"]


def test_a_trace_that_has_just_changed_or_is_damaged_is_not_cached(trace, tmp_path):
    write(trace, "young", age_s=0)
    read(trace)
    trace.write_text(trace.read_text()[:-30])
    os.utime(trace, (time.time() - 60,) * 2)
    counts = ReadCounts()
    for _ in range(2):
        trace_cache.read(str(trace), ARGUMENTS, counts)
    assert len(counts.damaged_files) == 2
    assert folders(tmp_path) == []


def test_the_trace_is_read_when_the_cache_is_damaged(trace, tmp_path):
    read(trace)
    for file in (tmp_path / "cache").rglob("*.*"):
        if file.is_file():
            file.write_bytes(file.read_bytes()[:20])
    assert "first" in read(trace).spans["name"]


def test_the_cache_is_in_the_result_and_holds_only_the_latest_version(trace, tmp_path):
    (tmp_path / "a_analysis").mkdir()
    for name in ("first", "again"):
        write(trace, name)
        read(trace)
    assert [path.parent.parent.name for path in tmp_path.rglob("rest.json")] == [".ms_profiler_cache"]
    assert not (tmp_path / "cache").exists()


def test_many_at_once_keep_it_once(trace, tmp_path):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(read, [trace] * 16))
    assert all("first" in events.spans["name"] for events in found)
    assert len(folders(tmp_path)) == 1
    assert not list((tmp_path / "cache").rglob(".*"))


def test_the_cache_of_a_user_has_an_end(trace, tmp_path):
    for number in range(6):
        write(tmp_path / f"{number}.json", f"name {number}")
        read(tmp_path / f"{number}.json")
    assert len(folders(tmp_path)) == 4


def test_a_query_gives_the_same_a_second_time(trace, monkeypatch):
    select = "select name, dur from spans order by start"
    first = query.ask([str(trace)], select).table
    monkeypatch.setattr(trace_events, "read", None)
    assert_frame_equal(query.ask([str(trace)], select).table, first)
    assert engine.measured(str(trace)).recording.info.rank == 3
    assert foreign.read(str(trace), frozenset()).threads["thread_name"].to_list() == ["main"]


def test_a_table_is_measured_once(trace, tmp_path, monkeypatch):
    select = "select s.name, s.dur from spans s left join copies c on c.start = s.start order by s.start"
    first = query.ask([str(trace)], select)
    # notes about missing parts are repeated, too
    assert first.table.height == 2 and any("copies is empty" in note for note in first.notes)
    monkeypatch.setattr(engine, "measured", None)  # must not be called
    again = query.ask([str(trace)], select)
    assert_frame_equal(again.table, first.table)
    assert again.notes == first.notes
    with pytest.raises(TypeError):
        query.ask([str(trace)], "select * from kernels")
    # a table that another version of our code stored is not used
    monkeypatch.setattr(table_cache, "_code", lambda: "other")
    with pytest.raises(TypeError):
        query.ask([str(trace)], select)
    assert len(list(tmp_path.rglob("table_copies*.arrow"))) == 1


def test_a_damaged_table_of_the_cache_is_made_again(trace, tmp_path, monkeypatch):
    first = query.ask([str(trace)], "select * from spans")
    for rows in tmp_path.rglob("table_spans*.arrow"):
        rows.write_bytes(rows.read_bytes()[:100])
    assert_frame_equal(query.ask([str(trace)], "select * from spans").table, first.table)
    write(trace, "second")
    assert query.ask([str(trace)], "select name from spans").table["name"][0] == "second"


def test_a_summary_without_write_permission(tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir()
    write(folder / "a.json", "first")
    folder.chmod(0o555)
    script = (
        "import os, sys; os.access = lambda *_: False; from ms_profiler.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "summary", str(folder / "a.json")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "torch CPU" in done.stdout) == (0, True), done.stderr
    assert done.stderr.strip() == f"ms-profiler: {folder}/a_analysis cannot be written, so the analysis is not stored."
    assert os.listdir(folder) == ["a.json"]
