import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import jsonschema
import ms_profiler.analysis.report
import pytest
from ascend_builder import sample
from ms_profiler.analysis.driver import engine
from ms_profiler.errors import DependencyError, StoreError, UsageError
from ms_profiler.store import format as fmt, layout
from ms_profiler.store.format import Category, Kind
from store_builder import MS, RAW_NS, StoreBuilder, compiled, folder_of, training, write_training

SCHEMA = json.loads((Path(ms_profiler.analysis.report.__file__).parent / "summary.schema.json").read_text())


def summary_of(path):
    summary = json.loads((Path(path) / layout.SUMMARY).read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(summary)
    return summary


def analyse(store, **options):
    path = store.write()
    (result,) = engine.analyse([path], **options)
    return result, summary_of(path)


def artefacts(path):
    return {
        file.relative_to(path): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file() and layout.FRAMEWORK not in file.parts
    }


@pytest.fixture
def store(tmp_path):
    return StoreBuilder(tmp_path)


def test_the_schema_is_valid_and_rejects_incomplete_summaries(tmp_path):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    _, summary = analyse(training(tmp_path))
    for key in SCHEMA["required"]:
        broken = {name: value for name, value in summary.items() if name != key}
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(SCHEMA).validate(broken)
    assert set(summary) == set(SCHEMA["properties"])
    _, summary = analyse(compiled(tmp_path / "kernels"))
    assert set(summary["kernels"]) == set(SCHEMA["properties"]["kernels"]["properties"])


@pytest.mark.parametrize("form", ["text", "database", "trace"])
def test_results_of_other_tools_have_the_same_summary(tmp_path, form):
    made = sample(tmp_path)
    path = made.database() if form == "database" else made.text()
    if form == "trace":
        path = path / layout.OUTPUT / layout.TRACE_VIEW
    (result,) = engine.analyse([path])
    summary = summary_of(result.directory)
    assert set(summary) == set(SCHEMA["properties"])
    assert summary["verdict"] == result.verdict and summary["steps"]["count"] == 1
    assert result.warning == ""


def test_a_recording_is_analysed_elsewhere(tmp_path):
    path = write_training(tmp_path / "in")
    (path / "profiler_info_9.json").touch()
    (result,) = engine.analyse([path], output=str(tmp_path / "out"))
    assert result.directory == str(tmp_path / "out" / path.name)
    assert summary_of(result.directory)["derived"] is None
    assert sorted(file.name for file in path.iterdir()) == [layout.FRAMEWORK, "profiler_info_9.json"]
    engine.analyse([path])
    assert artefacts(Path(result.directory)) == artefacts(path)


def test_plain_training(tmp_path):
    result, summary = analyse(training(tmp_path))
    assert result.verdict == summary["verdict"] == "30 % of the step waits for data."
    assert result.warning == ""
    assert summary["steps"]["count"] == 20 and summary["steps"]["source"] == "script"
    # left out are the step that compiled, and the step after it, which filled caches
    assert summary["steps"]["steady"]["left_out"] == 2 and summary["steps"]["steady"]["median_ms"] == 10.0
    assert summary["steps"]["first_ms"] == 110.0
    assert summary["compile"].pop("operators")["count"] == 0
    assert (summary["compile"].pop("graph_breaks"), summary["compile"].pop("without_graph")) == ([], [])
    assert summary["compile"] == {"total_ms": 100.0, "share_of_run": pytest.approx(100 / 351, abs=1e-6), "steps": [0]}
    assert sum(phase["total_ms"] for phase in summary["phases"].values()) == pytest.approx(20 * 10 + 100)
    assert summary["top_operators"][0]["name"] == "MatMul"
    assert summary["modules"][0] == {
        "name": "Net",
        "count": 20,
        "total_ms": 40.0,
        "self_ms": 20.0,
        "average_ms": 2.0,
        "max_ms": 2.0,
        "scaled": False,
        "count_error": None,
        "total_ms_error": None,
    }
    assert summary["run"]["processes"][0]["state"] == "exit"
    assert summary["cost"]["estimated_ms"] == pytest.approx(161 * 200e-6 + 10)
    assert summary["advice"][0]["what"] == "data"
    assert summary["clock"] == {"uncertainty_ns": 100, "wall_steps": []}


@pytest.mark.parametrize("build", [training, pytest.param(compiled, marks=pytest.mark.slow)])
@pytest.mark.parametrize("state", ["running", "ended"])
def test_the_same_store_gives_the_same_bytes(tmp_path, state, build):
    store = build(tmp_path, host="another host")
    thread = store.processes[0].thread(2, "comm", 4300)
    thread.span("AllReduce@world", Category.COMMUNICATION, 60 * MS, 61 * MS, arg=1000)
    store.processes[0].info.state = state
    path = store.write()
    engine.analyse([path])
    first = artefacts(path)
    for name in first:
        (path / name).unlink()
    engine.analyse([path])
    assert artefacts(path) == first
    # an interpreter with another hash seed and another number of threads writes the same bytes
    code = f"from ms_profiler.analysis.driver.engine import analyse; analyse([{str(path)!r}])"
    environ = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(Path(engine.__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code], env={**environ, "POLARS_MAX_THREADS": "2"}, check=True)
    assert artefacts(path) == first


@pytest.mark.parametrize("small", [True, False])
def test_a_small_recording_is_analysed_with_one_thread_of_polars(tmp_path, small):
    path = write_training(tmp_path)
    if not small:
        with open(path / "large", "wb") as stream:
            stream.truncate(engine.SMALL + 1)
    code = f"""
from ms_profiler.analysis.driver import cpus, engine
cpus.usable = lambda: 3
engine.analyse([{str(path)!r}])
import polars
print(polars.thread_pool_size())
"""
    environ = {key: value for key, value in os.environ.items() if key != "POLARS_MAX_THREADS"}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1" if small else "3"]


def test_killed_run_has_its_state_and_unfinished_spans(tmp_path):
    store = training(tmp_path, host="")
    process = store.processes[0]
    process.info.state, process.info.end, process.info.ended_ns = "running", "", 0
    process.info.pid, process.info.process_start = 4242, 1
    process.thread(2, "stuck", 4300).open("hangs", Category.SYNC, 5 * MS)
    _, summary = analyse(store)
    assert summary["run"]["processes"][0]["state"] == "killed or vanished"
    assert summary["completeness"]["unfinished_spans"] == 1


def test_damage_is_a_warning_and_counted(tmp_path):
    store = training(tmp_path)
    thread = store.processes[0].thread(2, "damaged", 4300)
    thread.segment.add(0)
    thread.span("after the hole", Category.DATA, 0, MS)
    thread.span(9999, Category.DATA, 0, MS)
    store.processes[0].new_segment(version=7).add(Kind.SPAN, 1, 2)
    result, summary = analyse(store)
    assert "1 torn" in result.warning and "version 7" in result.warning
    completeness = summary["completeness"]
    assert (completeness["torn"], completeness["missing_strings"]) == (1, 1)
    assert completeness["damaged_files"][0]["file"] == "process_4242/000003.seg"
    assert summary["steps"]["count"] == 20


def test_budget_that_refused_records_is_a_lost_window(tmp_path):
    store = training(tmp_path)
    store.processes[0].control.dropped = store.processes[0].control.dropped_limit = 77
    store.processes[0].anchor(2000 * MS)
    _, summary = analyse(store)
    (window,) = summary["completeness"]["lost_windows"]
    assert window["records"] == 77 and window["pid"] == 4242
    # The last module or operator of the run ends at 347 ms, because step 19 begins at 340 ms.
    assert (window["from_s"], window["to_s"]) == (0.347, 2.0)


def test_a_wall_clock_that_was_set_is_reported(store):
    process = store.process()
    thread = process.thread()
    thread.span("x", Category.DATA, 0, MS)
    process.anchor(1000 * MS, offset=-3600 * 10**9)
    _, summary = analyse(store)
    assert [step["jump_ns"] for step in summary["clock"]["wall_steps"]] == [-3600 * 10**9]
    assert summary["run"]["duration_s"] == 1.0


def test_a_control_stream_alone_is_a_result(store):
    store.process()
    result, summary = analyse(store)
    assert result.verdict == "No step was recorded."
    assert summary["steps"]["source"] == "whole_run" and summary["steps"]["count"] == 1


def test_cost_without_a_measurement_is_not_invented(tmp_path):
    _, summary = analyse(training(tmp_path, cost={}))
    assert summary["cost"]["estimated_ms"] is None and summary["cost"]["share_of_run"] is None


def test_step_list_restricts_every_table(tmp_path):
    store = training(tmp_path)
    _, summary = analyse(store, step_list=[4, 3, 5])
    assert summary["steps"]["chosen"] == [3, 4, 5]
    assert summary["steps"]["count"] == 3 and summary["steps"]["steady"]["left_out"] == 1
    assert summary["top_operators"][0]["count"] == 3 and summary["dataset"][0]["count"] == 3
    events = json.loads((folder_of(store.path) / layout.TRACE_VIEW).read_text())
    assert {event["args"]["step"] for event in events if "step" in event.get("args", {})} == {3, 4, 5}
    rows = (folder_of(store.path) / layout.STEP_TRACE_TIME).read_text().splitlines()[1:]
    assert [row.split(",")[0] for row in rows] == ["3", "4", "5"]


@pytest.mark.parametrize("steps", [[1, 3], [], [100, 101]])
def test_step_list_that_cannot_be_served(tmp_path, steps):
    with pytest.raises(UsageError):
        engine.analyse([write_training(tmp_path)], step_list=steps)


def test_a_parent_directory_is_replaced_by_its_results(tmp_path):
    paths = [write_training(tmp_path, name=f"host_{rank}_20260101000000123_ascend_ms", rank=rank) for rank in range(3)]
    (tmp_path / "unrelated").mkdir()
    (tmp_path / "empty_ascend_ms").mkdir()
    results = engine.analyse([tmp_path, paths[1]])
    assert [result.directory for result in results] == [str(path) for path in paths]
    assert all(summary_of(path)["rank"] == rank for rank, path in enumerate(paths))


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_directory_without_a_recording(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match=name):
        engine.analyse([tmp_path / name])


def test_one_unreadable_result_does_not_hide_the_others(tmp_path):
    good = write_training(tmp_path, name="a_1_20260101000000123_ascend_ms")
    bad = tmp_path / "b_2_20260101000000123_ascend_ms"
    (bad / layout.FRAMEWORK).mkdir(parents=True)
    results = engine.analyse([tmp_path])
    assert [bool(result.error) for result in results] == [False, True]
    assert summary_of(good)["steps"]["count"] == 20
    with pytest.raises(StoreError, match="no segment"):
        engine.analyse([bad])


def test_without_polars_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(DependencyError, match=r"pip install 'ms-profiler\[analysis\]'"):
        engine.analyse([write_training(tmp_path)])


def test_importing_the_engine_imports_no_polars():
    code = "import sys, ms_profiler.cli.analyse; print('polars' in sys.modules, 'rich' in sys.modules)"
    environ = {**os.environ, "PYTHONPATH": str(Path(engine.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_a_million_records_stay_within_bounds(store):
    process = store.process()
    thread = process.thread()
    name = process.string("op")
    for number in range(10):
        thread.new_segment()
        base = RAW_NS + number * 100_000 * 1000
        thread.segment.slots += b"".join(
            fmt.SLOT.pack(base + i * 1000, base + i * 1000 + 900, 0, name, Kind.SPAN, Category.OP, 0, 0)
            for i in range(100_000)
        )
        thread.step(number, number * 10**8, (number + 1) * 10**8)
    path = store.write()
    code = (
        "import resource; from ms_profiler.analysis.driver.engine import analyse\n"
        f"analyse([{str(path)!r}]); print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    environ = {**os.environ, "PYTHONPATH": str(Path(engine.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert summary_of(path)["top_operators"][0]["count"] == 1_000_000
    kilobytes = int(done.stdout)
    print(f"maximum resident set: {kilobytes / 1024:.0f} MiB")
    assert kilobytes < 1_000_000
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >= kilobytes


def test_halves_of_surrogate_pairs_in_the_records_of_a_run_and_in_a_trace_end_no_analysis(tmp_path):
    store = training(tmp_path, metadata={"a\ud800": "\udc00"}, messages=["x\ud800"])
    store.processes[0].info.name = "p\ud800"
    path = store.write()
    event = {"ph": "X", "name": "op\ud800", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 1, "dur": 5}
    named = {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "t\udfff"}}
    (tmp_path / "t.json").write_text(json.dumps([event, named]))
    engine.analyse([path, tmp_path / "t.json"])
    assert json.loads((path / layout.SUMMARY).read_text())["run"]["processes"][0]["name"] == "p?"
    assert "op?" in (tmp_path / "t_analysis" / layout.OUTPUT / layout.TRACE_VIEW).read_text()


@pytest.mark.slow
def test_the_analysis_of_many_steps_ends(tmp_path):
    """An earlier analysis made a set for each step, and took four minutes for 100,000 steps."""
    count, store = 100_000, StoreBuilder(tmp_path)
    process = store.process()
    thread, names = process.thread(), [process.string(name) for name in ("next", "forward")]
    for number in range(count):
        if number % 1000 == 0:
            thread.new_segment()
        start = (number + 50) * MS
        thread.span(names[0], Category.DATA, start, start + MS // 4)
        thread.span(names[1], Category.FORWARD, start + MS // 4, start + MS // 2)
        thread.step(number, start, start + MS)
    process.info.ended_ns = RAW_NS + (count + 51) * MS
    path = store.write()
    subprocess.run([sys.executable, "-m", "ms_profiler", "analyse", str(path)], check=True, timeout=120)
    summary = summary_of(path)
    assert summary["steps"]["count"] == count
    assert summary["phases"]["data"]["total_ms"] == pytest.approx(count / 4, rel=1e-4)
