"""The timeline in Kineto's form is right, and Holistic Trace Analysis reads it."""

import json
import pathlib
import subprocess
import sys

import pytest
from conftest import PROGRAMS, environment
from ms_profiler.analysis.driver import engine
from ms_profiler.store.format import Category
from store_builder import MS, WALL_NS, StoreBuilder, compiled, folder_of, training

#: Python of a separate environment, because Holistic Trace Analysis does not support newer versions of pandas
HTA = pathlib.Path(sys.prefix) / "hta" / "bin" / "python"
LOAD = """
import json, sys
from hta.trace_analysis import TraceAnalysis
from hta.common.trace_call_graph import CallGraph
analysis = TraceAnalysis(trace_dir=sys.argv[1], include_last_profiler_step=True)
table = analysis.t.get_trace(0)
names = analysis.t.symbol_table.sym_table
rows = table[["name", "cat", "external_id"]].values.tolist()
found = [(names[name], names[kind], int(id)) for name, kind, id in rows]
CallGraph(analysis.t)
print(json.dumps({"steps": [int(step) for step in analysis.get_profiler_steps()], "events": found}))
"""


def trace_of(store):
    path = pathlib.Path(store.write())
    engine.analyse([path])
    (file,) = (path / "KINETO").iterdir()
    return file.name, json.loads(file.read_text(encoding="utf-8"))


def nanoseconds(trace, event):
    start = trace["baseTimeNanoseconds"] + round(event["ts"] * 1000)
    return start, start + round(event["dur"] * 1000)


def lasting(trace, name):
    return [event for event in trace["traceEvents"] if event["ph"] == "X" and event["name"].startswith(name)]


@pytest.fixture
def store(tmp_path):
    return StoreBuilder(tmp_path, options={"export_type": ["text", "kineto"]})


def test_only_on_request(tmp_path):
    path = pathlib.Path(training(tmp_path).write())
    engine.analyse([path])
    assert (folder_of(path) / "trace_view.json").exists() and not (path / "KINETO").exists()


def test_its_head_describes_the_run(store):
    store.process().thread().span("a", Category.OP, MS, 2 * MS)
    name, trace = trace_of(store)
    assert name == "kineto_trace_0.json"
    assert trace["schemaVersion"] == 1 and trace["distributedInfo"] == {"rank": 0, "world_size": 1}
    assert trace["baseTimeNanoseconds"] % 10**9 == 0


def test_operators_and_everything_else_with_ids_by_begin(store):
    thread = store.process().thread(1, "main", 4300)
    thread.span("aten::mm", Category.OP, 2 * MS, 3 * MS + 1)
    thread.span("Net.layer", Category.MODULE, MS, 4 * MS + 123)
    other = store.processes[0].thread(2, "worker", 4301)
    other.span("fetch", Category.DATA, MS + 1, 2 * MS)
    other.instant("mark", Category.MARKER, 3 * MS)
    _, trace = trace_of(store)
    found = sorted(lasting(trace, ""), key=lambda event: event["args"]["External id"])[1:]  # without the step
    assert [(event["name"], event["cat"], event["tid"], event["args"]["External id"]) for event in found] == [
        ("Net.layer", "user_annotation", 4300, 1),
        ("fetch", "user_annotation", 4301, 2),
        ("aten::mm", "cpu_op", 4300, 3),
    ]
    assert [nanoseconds(trace, event) for event in found] == [
        (WALL_NS + MS, WALL_NS + 4 * MS + 123),
        (WALL_NS + MS + 1, WALL_NS + 2 * MS),
        (WALL_NS + 2 * MS, WALL_NS + 3 * MS + 1),
    ]
    (mark,) = [event for event in trace["traceEvents"] if event["ph"] == "i"]
    assert mark["name"] == "mark" and mark["tid"] == 4301
    named = {event["tid"]: event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
    assert named[4300] == "thread 4300 (main)" and named[4301] == "thread 4301 (worker)"


def test_steps_and_kernels(tmp_path):
    store = compiled(tmp_path, options={"export_type": ["kineto"]})
    _, trace = trace_of(store)
    assert [event["name"] for event in lasting(trace, "ProfilerStep")] == [f"ProfilerStep#{n}" for n in range(20)]
    text = json.loads((folder_of(tmp_path / store.path.name) / "trace_view.json").read_text())
    kernels = {(e["name"], e["ts"], e["dur"]) for e in text if e["ph"] == "X" and "op" in e["args"]}
    ours = {
        (e["name"], *(f"{number // 1000}.{number % 1000:03d}" for number in (start, end - start)))
        for e in lasting(trace, "")
        for start, end in [nanoseconds(trace, e)]
        if e["cat"] == "cpu_op"
    }
    assert kernels and kernels <= ours
    ids = [event["args"]["External id"] for event in lasting(trace, "") if event["tid"]]
    assert len(ids) == len(set(ids))


@pytest.mark.slow
def test_holistic_trace_analysis_reads_a_real_job(job):
    run = job(PROGRAMS / "torch_loops.py", "plain", options={"export_type": ["text", "kineto"]})
    assert run.code == 0
    # without this, the tool gives events of less than a microsecond a negative duration, in Kineto's own files as well
    env = environment(HTA_DISABLE_NS_ROUNDING="1")
    done = subprocess.run(
        [HTA, "-c", LOAD, run.result / "KINETO"], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    steps = run.summary["steps"]
    assert found["steps"] == list(range(steps["count"]))
    trace = json.loads((run.result / "KINETO" / "kineto_trace_0.json").read_text())
    expected = sorted((e["name"], e["cat"], e["args"]["External id"]) for e in lasting(trace, ""))
    assert sorted(tuple(event) for event in found["events"]) == expected
    assert sum(kind == "cpu_op" for _, kind, _ in found["events"]) > 100
