import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ms_profiler.analysis.catalogue import query
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.metrics import measures, overlap
from ms_profiler.analysis.readers import store as readers_store
from ms_profiler.analysis.report import terminal
from ms_profiler.analysis.streams import kernel_stream as kernels
from ms_profiler.store import layout
from ms_profiler.store.format import Category
from rich.console import Console
from store_builder import (
    BACKWARD,
    FORWARD,
    MS,
    RAW_NS,
    UPDATE,
    WALL_NS,
    StoreBuilder,
    compiled,
    folder_of,
    layer,
    training,
)


def summary_of(store, **options):
    path = store.write()
    engine.analyse([path], **options)
    return json.loads((path / layout.SUMMARY).read_text())


def step_times(store):
    return measures.measure(readers_store.read(str(store.write()))).stream.times.rows(named=True)


@pytest.fixture
def store(tmp_path):
    return StoreBuilder(tmp_path)


def test_compiled_training(tmp_path):
    summary = summary_of(compiled(tmp_path))
    found = summary["kernels"]
    assert (found["count"], found["total_ms"], found["types"], found["names"]) == (60, 110.0, 2, 3)
    assert found["bound"] == {"module": 60, "primitive": 0, "phase": 0, "nothing": 0}
    assert found["bound_share"] == found["module_share"] == 1.0
    assert [(row["name"], row["count"], row["total_ms"]) for row in found["by_module"]] == [
        ("network._backbone.fc", 60, 110.0),
    ]
    assert found["by_part_ms"] == {"forward": 40.0, "backward": 60.0, "optimizer": 10.0}
    assert (found["steps"], found["windows"], found["lost_windows"]) == (20, 2, 0)
    top = summary["top_operators"][0]
    assert (top["name"], top["count"], top["self_ms"], top["average_ms"]) == ("MatMul", 40, 100.0, 2.5)
    verdict = "The steps are dominated by compute (graph) (80 %); 91 % of the kernel time is MatMul; "
    assert summary["verdict"].startswith(f"{verdict}network._backbone.fc takes 100 % of the kernel time, mostly MatMul")
    assert {summary["sources"][key] for key in ("top_operators", "kernel_details", "step_trace_time")} == {
        "kernel stream"
    }
    assert (summary["cost"]["drains"], summary["cost"]["drain_ms"]) == (2, 0.004)
    assert summary["cost"]["estimated_ms"] == pytest.approx(66 * 200e-6 + 10 + 0.004)
    assert summary["coverage"]["kernels"] == summary["coverage"]["kernels_kept"] == 60
    assert summary["coverage"]["kernel_steps"] is None


def evaluated(parent):
    """Build 6 steps of 10 ms with kernels of 2, 3 and 0.5 ms; an evaluation with a kernel of 18 ms follows each."""
    store = StoreBuilder(parent, framework={"name": "mindspore", "version": "2.10.0", "mode": "pynative"})
    process = store.process()
    thread = process.thread()
    process.graphs.append(layer())
    kernels, inputs = [], "input_1:[4, 8];input_2:[8, 8];input_3:NoShape;"
    for number in range(6):
        start = (50 + 30 * number) * MS
        thread.span("Net", Category.FORWARD, start + MS, start + 4 * MS)
        thread.span("Net", Category.BACKWARD, start + 4 * MS, start + 8 * MS)
        thread.span("Momentum", Category.OPTIMIZER, start + 8 * MS, start + 9 * MS)
        thread.step(number, start, start + 10 * MS)
        thread.span("Model.eval", Category.EVALUATION, start + 10 * MS, start + 30 * MS)
        thread.span("Net", Category.FORWARD, start + 11 * MS, start + 29 * MS)
        kernels += [
            (FORWARD, start + 2 * MS, 2 * MS, inputs),
            (BACKWARD, start + 5 * MS, 3 * MS, "input_1:[4, 8];input_2:[8, 8];"),
            (UPDATE, start + 8 * MS, MS // 2, "input_1:[8, 8];input_2:[8, 8];"),
            (FORWARD, start + 11 * MS, 18 * MS, inputs),
        ]
    thread.window(0, 40 * MS, 240 * MS, kernels)
    process.anchor(250 * MS)
    return store


def test_kernels_of_an_evaluation_are_not_of_the_steps(tmp_path):
    summary = summary_of(evaluated(tmp_path))
    found, tree = summary["kernels"], summary["module_tree"]
    assert (found["count"], found["total_ms"]) == (24, 6 * 23.5)
    assert found["by_part_ms"] == {"forward": 12.0, "backward": 18.0, "optimizer": 3.0}
    assert found["by_part_per_step_ms"] == {"forward": 2.0, "backward": 3.0, "optimizer": 0.5}
    sentence = "The steps are dominated by backward (55 % of the time of kernels); 91 % of the kernel time is MatMul; "
    assert summary["verdict"].startswith(
        f"{sentence}network._backbone.fc takes 100 % of the kernel time, mostly MatMul"
    )
    assert tree["whole_ms"] == 33.0
    result = str(tmp_path / summary["directory"])
    whole = query.ask([result], "select module, forward, backward, total from modules order by module").table
    steps = """select module, sum(forward) as forward, sum(backward) as backward, sum(total) as total
        from module_steps group by module order by module"""
    assert whole.equals(query.ask([result], steps).table.cast(whole.schema))
    assert whole.row(-1) == ("network._backbone.fc", 12 * MS, 18 * MS, 33 * MS)
    (each,) = query.ask([result], "select sum(count) as n, sum(total) as t from kernel_sums").table.rows()
    assert each == (24, 6 * 23.5 * MS)
    page = io.StringIO()
    terminal.show(summary, result, Console(file=page, width=120))
    (line,) = (line for line in page.getvalue().splitlines() if line.strip().startswith("backward"))
    assert line.endswith("3.000 ms")


def test_computing_is_the_union_of_the_kernels(store):
    process = store.process()
    thread = process.thread()
    thread.span("graph", Category.GRAPH, 0, 900)
    kernels = [(FORWARD, 100, 100, ""), ("Mul", 150, 100, "", 1), ("Add", 400, 50, "")]
    thread.window(0, -10, 2000, kernels)
    thread.step(0, 0, 1000)
    process.anchor(5000)
    (row,) = step_times(store)
    assert (row["computing"], row["free"], row["preparing"], row["stage"]) == (200, 800, 100, 1000)


def test_collectives_among_the_kernels_are_communication(store):
    process = store.process()
    thread = process.thread()
    kernels = [(FORWARD, 100, 100, ""), ("Default/net-Net/AllReduce-op0", 150, 100, "", 1), ("Send", 400, 50, "")]
    thread.window(0, -10, 2000, kernels)
    thread.step(0, 0, 1000)
    process.anchor(5000)
    (row,) = step_times(store)
    assert (row["computing"], row["communication"], row["overlapped"], row["free"]) == (100, 150, 50, 800)


def test_where_kernels_were_not_recorded_the_phases_decide(tmp_path):
    store = compiled(tmp_path)
    # the recorder never wrote the second window out
    store.processes[0].windows[1] = {}
    summary = summary_of(store)
    rows = (folder_of(store.path) / layout.STEP_TRACE_TIME).read_text().splitlines()[1:]
    assert [row.split(",")[1] for row in rows] == ["5500.000"] * 10 + ["8000.000"] * 10
    assert summary["kernels"]["steps"] == 10 and summary["kernels"]["lost_windows"] == 1
    assert summary["sources"]["step_trace_time"] == "kernel stream; phases of the stepping thread for 10 steps"
    (window,) = summary["completeness"]["lost_windows"]
    assert window["what"] == "kernels of window 1, none of which could be read"
    assert (window["from_s"], window["to_s"]) == (0.150004, 0.251002)


def test_call_that_runs_no_kernel_loses_no_window(tmp_path):
    store = compiled(tmp_path, windows=2)
    thread = store.processes[0].thread(2, "x", 4300)
    thread.span("Net", Category.MODULE, 260 * MS, 270 * MS)
    thread.window(2, 255 * MS, 280 * MS, [])
    summary = summary_of(store)
    assert summary["completeness"]["lost_windows"] == [] and summary["kernels"]["windows"] == 3


def test_step_is_the_same_cut_by_windows_or_not(tmp_path, monkeypatch):
    one = compiled(tmp_path / "one", windows=1)
    many = compiled(tmp_path / "many", windows=1)
    monkeypatch.setattr(kernels, "BATCH", 10**9)
    whole = step_times(one)
    monkeypatch.setattr(kernels, "BATCH", 1)
    assert step_times(many) == whole
    many = compiled(tmp_path / "batches", windows=10)
    monkeypatch.setattr(kernels, "BATCH", 10**9)
    whole, states = step_times(many), measures.measure(readers_store.read(str(many.path))).states
    monkeypatch.setattr(kernels, "BATCH", 1)
    assert step_times(many) == whole
    pieces = measures.measure(readers_store.read(str(many.path))).states
    assert overlap.lanes(pieces).rows() == overlap.lanes(states).rows()


def test_run_without_steps_is_one_step_of_all_windows(store):
    process = store.process()
    thread = process.thread()
    thread.window(0, 0, MS, [(FORWARD, 10, 20, "")])
    thread.window(1, 2 * MS, 3 * MS, [(FORWARD, 2 * MS + 10, 30, "")])
    process.anchor(5 * MS)
    (row,) = step_times(store)
    assert (row["computing"], row["stage"], row["preparing"]) == (50, 5 * MS, 10)


@pytest.mark.parametrize("end", [None, 300 * MS])
def test_window_of_a_killed_process_is_lost_as_far_as_it_was_not_written(tmp_path, end):
    store = compiled(tmp_path, host="")
    process = store.processes[0]
    process.info.state, process.info.end, process.info.ended_ns = "running", "", 0
    thread = process.thread(2, "x", 4300)
    thread.span("graph Net", Category.GRAPH, 260 * MS, 270 * MS)
    thread.window(2, 255 * MS, end, [])
    summary = summary_of(store)
    (window,) = summary["completeness"]["lost_windows"]
    assert (window["what"], window["pid"]) == ("kernels of window 2, none of which could be read", 4242)
    assert window["from_s"] == 0.255
    assert summary["kernels"]["windows"] == 3


def test_kernels_of_an_interrupted_window_count_and_its_steps_use_phases(tmp_path):
    store = compiled(tmp_path, windows=2, host="")
    process = store.processes[0]
    # the process was killed while it wrote the executions: the window has no shapes and no end
    content = process.windows[1].pop("cpu_framework_0.txt") and process.windows[1]["cpu_op_execute_timestamp_0.txt"]
    process.windows[1]["cpu_op_execute_timestamp_0.txt"] = content[: len(content) // 2]
    process.info.state, process.info.end = "running", ""
    thread = process.segments[1].slots
    marks = thread.rfind((1).to_bytes(8, "little") + process.strings["kernel window end"].to_bytes(4, "little"))
    del thread[marks - 16 : marks + 48]
    summary = summary_of(store)
    (window,) = summary["completeness"]["lost_windows"]
    read = summary["kernels"]["count"] - 30
    assert 0 < read < 30 and window["what"] == f"kernels of window 1, of which {read} could be read"
    assert summary["kernels"]["steps"] == 10


def test_window_that_was_written_whole_before_the_kill_is_not_lost(tmp_path):
    store = compiled(tmp_path, windows=1, host="")
    process = store.processes[0]
    process.info.state, process.info.end = "running", ""
    del process.segments[1].slots[-64:]
    summary = summary_of(store)
    assert summary["kernels"]["windows"] == 1
    assert summary["completeness"]["lost_windows"] == [] and summary["kernels"]["steps"] == 20


def test_window_in_which_nothing_ran_is_not_lost(tmp_path):
    store = compiled(tmp_path)
    thread = store.processes[0].thread(2, "x", 4300)
    thread.window(2, 260 * MS, 270 * MS, [])
    summary = summary_of(store)
    assert summary["kernels"]["windows"] == 3
    assert summary["completeness"]["lost_windows"] == [] and summary["kernels"]["lost_windows"] == 0


def test_damaged_kernels_are_reported(tmp_path):
    store = compiled(tmp_path)
    files = store.processes[0].windows[0]
    files["cpu_op_execute_timestamp_0.txt"] = files["cpu_op_execute_timestamp_0.txt"].replace(",2,", ",two,", 4)
    path = store.write()
    (result,) = engine.analyse([path])
    summary = json.loads((path / layout.SUMMARY).read_text())
    assert "4 kernels that cannot be read" in result.warning
    assert summary["completeness"]["damaged_kernels"] == 4 and summary["kernels"]["count"] == 56


def test_step_list_restricts_kernels(tmp_path):
    summary = summary_of(compiled(tmp_path), step_list=[3, 4])
    assert summary["kernels"]["count"] == 6 and summary["kernels"]["steps"] == 2
    assert summary["top_operators"][0]["count"] == 4


def test_kernels_beside_an_accelerator_are_no_computation_of_the_steps(tmp_path):
    device = {"name": "mindspore", "version": "2.10.0", "mode": "graph", "device": "Ascend"}
    store = compiled(tmp_path, framework=device)
    summary = summary_of(store)
    assert summary["kernels"]["count"] == 60
    assert "kernel_details" not in summary["sources"] and summary["top_operators"] == []
    assert summary["sources"]["step_trace_time"] == "phases of the stepping thread"
    written = {file.name for file in folder_of(store.path).iterdir()}
    assert not written & {layout.KERNEL_DETAILS, layout.OP_STATISTIC} and layout.TRACE_VIEW in written


def test_kernels_of_another_process_are_no_part_of_the_steps(tmp_path):
    store = training(tmp_path, steps=4)
    child = store.process(5000, role="fork")
    child.thread().window(0, 60 * MS, 300 * MS, [(FORWARD, 100 * MS, MS, "")])
    summary = summary_of(store)
    assert summary["kernels"]["count"] == 1 and summary["kernels"]["steps"] == 0
    assert summary["kernels"]["bound"]["nothing"] == 1
    assert summary["sources"]["step_trace_time"] == "phases of the stepping thread"


def test_stream_without_a_kernel(store):
    process = store.process()
    process.thread().window(0, 0, 10 * MS, [])
    process.anchor(20 * MS)
    summary = summary_of(store)
    assert summary["kernels"]["count"] == 0 and summary["kernels"]["bound_share"] is None
    assert summary["top_operators"] == []


def test_run_without_a_stream(tmp_path):
    summary = summary_of(training(tmp_path))
    assert summary["kernels"] is None and "kernels" not in summary["sources"]
    assert summary["coverage"]["kernels"] == 0


@pytest.fixture
def small(monkeypatch):
    """Lower the analysis's limits of kernels so that a small run reaches them."""
    monkeypatch.setattr(kernels, "MOST", 45)
    monkeypatch.setattr(kernels, "BATCH", 50)


def test_tables_are_those_of_all_kernels(tmp_path, small, monkeypatch):
    store = compiled(tmp_path, steps=100, windows=10)
    thinned = summary_of(store)
    table = (folder_of(store.path) / layout.STEP_TRACE_TIME).read_bytes()
    statistic = (folder_of(store.path) / layout.OP_STATISTIC).read_bytes()
    monkeypatch.setattr(kernels, "MOST", 10**9)
    whole = summary_of(store)
    assert thinned["coverage"]["kernels"] == whole["coverage"]["kernels"] == 300
    assert thinned["coverage"]["kernels_kept"] < 60 < whole["coverage"]["kernels_kept"]
    assert whole["coverage"]["kernel_steps"] is None
    # the bounds come from the steady steps whose kernels the analysis keeps
    assert 0 < thinned["bounds"].pop("steps") < len(thinned["coverage"]["kernel_steps"]) < whole["bounds"].pop("steps")
    paths = [{path["number"]: path for path in run["critical_path"].pop("steps")} for run in (thinned, whole)]
    assert set(paths[0]) <= set(thinned["coverage"]["kernel_steps"])
    assert {number: paths[1].get(number, path) for number, path in paths[0].items()} == paths[0]
    for key in sorted(set(whole) - {"coverage"}):
        assert thinned[key] == whole[key], key
    assert (folder_of(store.path) / layout.STEP_TRACE_TIME).read_bytes() == table
    assert (folder_of(store.path) / layout.OP_STATISTIC).read_bytes() == statistic


def test_kernels_of_the_first_and_last_steps_are_kept(tmp_path, small):
    store = compiled(tmp_path, steps=100, windows=10)
    summary = summary_of(store)
    kept = summary["coverage"]["kernel_steps"]
    assert {0, 99} <= set(kept) and 3 <= len(kept) < 20
    rows = (folder_of(store.path) / layout.KERNEL_DETAILS).read_text().splitlines()[1:]
    assert len(rows) == 3 * len(kept) == summary["coverage"]["kernels_kept"]
    assert {int(row.partition(",")[0]) for row in rows} == set(kept)
    assert all('"4,8;8,8' in row for row in rows if "MatMul" in row)
    events = json.loads((folder_of(store.path) / layout.TRACE_VIEW).read_text())
    shown = {event["args"]["step"] for event in events if event["pid"] == 2 and event["ph"] == "X"}
    assert shown == set(kept)


def test_coverage_is_shown(tmp_path, small, capsys):
    from ms_profiler.cli import main

    assert main(["summary", "--all", str(compiled(tmp_path, steps=100, windows=10).write())]) == 0
    assert "kernel_details.csv have the kernels of" in capsys.readouterr().out


@pytest.mark.slow
def test_a_million_kernels_stay_within_bounds(store):
    process = store.process()
    thread = process.thread()
    scopes = [f"Default/net-Net/{layer}-Layer/fc-Dense/MatMul-op{layer}" for layer in range(100)]
    for index in range(10):
        first = index * 3000 * MS
        thread.step(index, first, first + 2500 * MS)
        thread.window(index, first, first + 2600 * MS, [])
        lines = []
        for place, name in enumerate(scopes):
            starts = range(WALL_NS + first + place * 25_000, WALL_NS + first + 2500 * MS, 2_500_000)
            lines.append(f"{name};HostCpuOps;" + "".join(f"{start},0.02,0 " for start in starts))
        process.windows[index] = {
            "cpu_op_execute_timestamp_0.txt": "\n".join(lines) + "\n",
            "cpu_framework_0.txt": "".join(f"MatMul;MatMul-op{layer};1;input_1:[8, 8];\n" for layer in range(100))
            * 1000,
        }
    process.anchor(30_000 * MS)
    path = store.write()
    code = (
        "import resource; from ms_profiler.analysis.driver.engine import analyse\n"
        f"analyse([{str(path)!r}]); print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    environ = {**os.environ, "PYTHONPATH": str(Path(engine.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    summary = json.loads((path / layout.SUMMARY).read_text())
    assert summary["kernels"]["count"] == 1_000_000 and summary["kernels"]["total_ms"] == 20_000.0
    assert 0 < summary["coverage"]["kernels_kept"] < 600_000
    computing = [row.split(",")[1] for row in (folder_of(path) / layout.STEP_TRACE_TIME).read_text().splitlines()[1:]]
    assert computing == ["2000000.000"] * 10
    print(f"maximum resident set: {int(done.stdout) / 1024:.0f} MiB")
    assert int(done.stdout) < 1_000_000


def test_times_are_those_of_the_run_although_the_clocks_differ(tmp_path):
    store = compiled(tmp_path)
    path = store.write()
    table = measures.measure(readers_store.read(str(path))).stream.table
    assert table["start_ns"][0] == WALL_NS + 52 * MS != RAW_NS + 52 * MS
