"""Real MindSpore jobs, profiled by the variable alone."""

import csv
import json

import pytest
from conftest import PROGRAMS

MODEL_LOOP = PROGRAMS / "model_loop.py"
CUSTOM_LOOP = PROGRAMS / "custom_loop.py"


def phases(run):
    return {name: phase["total_ms"] for name, phase in run.summary["phases"].items()}


@pytest.mark.parametrize("mode", ["graph", "pynative"])
def test_model_loop_runs_as_before_and_every_batch_is_a_step(job, mode):
    bare = job(MODEL_LOOP, mode, profile=False)
    run = job(MODEL_LOOP, mode)
    assert (run.code, run.out) == (bare.code, bare.out)
    assert len(run.out.split()) == 20
    summary = run.summary
    assert (summary["steps"]["count"], summary["steps"]["source"]) == (20, "framework_loop")
    assert summary["framework"]["mode"] == mode
    assert summary["hooks"]["failed"] == {}
    assert len(run.lines) == 2, run.err
    computing = {"graph": ["compile", "compute (graph)"], "pynative": ["forward", "backward", "optimizer"]}[mode]
    for phase in ["data", "sync", *computing]:
        assert phases(run)[phase] > 0, phase


@pytest.mark.parametrize(
    ("kind", "steps", "source"),
    [
        ("plain", 12, "optimizer_cycle"),
        ("accumulate", 4, "optimizer_cycle"),
        ("two", 12, "optimizer_cycle"),
        ("jit", 12, "dataset"),
        ("cell", 12, "train_cell"),
        ("batches", 12, "dataset"),
    ],
)
def test_steps_of_a_custom_loop(job, kind, steps, source):
    bare = job(CUSTOM_LOOP, kind, profile=False)
    run = job(CUSTOM_LOOP, kind)
    assert (run.code, run.out) == (bare.code, bare.out)
    assert (run.summary["steps"]["count"], run.summary["steps"]["source"]) == (steps, source)


def test_phases_add_up_to_the_steps(job):
    run = job(CUSTOM_LOOP, "plain")
    with (run.result / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["Step"] for row in rows] == [str(number) for number in range(12)]
    stages = sum(float(row["Stage"]) for row in rows) / 1e3
    assert sum(phases(run).values()) == pytest.approx(stages, rel=0.01)


def test_fit_counts_training_steps_only_and_sees_checkpoints(job, tmp_path):
    run = job(PROGRAMS / "fit.py", str(tmp_path / "checkpoints"))
    assert run.code == 0, run.err
    assert run.summary["steps"]["count"] == 12
    assert phases(run)["checkpoint"] > 0


def test_modules_carry_their_place_in_the_network(job):
    run = job(CUSTOM_LOOP, "plain")
    events = json.loads((run.result / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    calls = [event["name"] for event in events if event["ph"] == "X"]
    assert calls.count("Net.first") == calls.count("Net.second") == 12


def test_schedule_records_the_steps_asked_for(job):
    run = job(MODEL_LOOP, "pynative", options={"schedule": {"wait": 2, "active": 3, "repeat": 1, "skip_first": 1}})
    steps = run.summary["steps"]
    assert (steps["count"], steps["recorded"]) == (20, 3)
    events = json.loads((run.result / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    assert {event["name"] for event in events if event["name"].startswith("ProfilerStep#")} == {
        "ProfilerStep#3",
        "ProfilerStep#4",
        "ProfilerStep#5",
    }


@pytest.mark.parametrize(
    "program",
    [
        "import copy, pickle, mindspore as ms\nfrom mindspore import nn\n"
        "net, x = nn.Dense(2, 2), ms.Tensor([[1., 2.]])\n"
        "copied = copy.deepcopy(net)\nprint(float(abs(copied(x) - net(x)).sum()))\n"
        "print(type(pickle.loads(pickle.dumps(nn.Dense.__call__))).__name__)",
        "import inspect\nfrom mindspore import nn, Model\nprint(inspect.signature(Model.train))\n"
        "print(inspect.getsource(nn.Cell.__call__)[:40])",
    ],
    ids=["copy and pickle", "inspect"],
)
def test_hooked_classes_behave_as_before(job, program):
    bare = job(program, profile=False)
    run = job(program)
    assert bare.code == 0, bare.err
    assert (run.code, run.out) == (bare.code, bare.out), run.err
