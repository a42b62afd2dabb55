"""Real MindSpore jobs, profiled by the variable alone."""

import json

import pytest
from conftest import PROGRAMS
from csv_rows import rows

MODEL_LOOP = PROGRAMS / "model_loop.py"
CUSTOM_LOOP = PROGRAMS / "custom_loop.py"


def phases(run):
    return {name: phase["total_ms"] for name, phase in run.summary["phases"].items()}


#: kind of loop -> number of steps, and the source of the steps' ends
EXPECTED = {
    "plain": (6, "optimizer_cycle"),
    "accumulate": (2, "optimizer_cycle"),
    "two": (6, "optimizer_cycle"),
    "jit": (6, "train_cell"),
    "cell": (6, "train_cell"),
    "batches": (6, "dataset"),
}
#: kinds that run as slow tests, because others have steps of the same source
VARIANTS = ("two", "batches", "accumulate", "cell", "jit")


@pytest.fixture(scope="module")
def bare_losses(launch):
    """Return the output of the model loop without the profiler, by mode."""
    run = launch(MODEL_LOOP, "graph", "pynative", profile=False)
    lines = run.out.splitlines(keepends=True)
    assert (run.code, len(lines)) == (0, 40), run.err
    return {"graph": "".join(lines[:20]), "pynative": "".join(lines[20:])}


@pytest.fixture(scope="module")
def bare_loops(launch):
    """Return the output of each kind of custom loop without the profiler."""
    run = launch(CUSTOM_LOOP, *EXPECTED, profile=False)
    assert run.code == 0, run.err
    return {line.split()[0]: line for line in run.out.splitlines(keepends=True)}


@pytest.fixture(scope="module")
def plain(launch):
    """Return a profiled run of the plain custom loop."""
    return launch(CUSTOM_LOOP, "plain")


@pytest.mark.parametrize("mode", ["graph", pytest.param("pynative", marks=pytest.mark.slow)])
def test_model_loop_runs_as_before_and_every_batch_is_a_step(job, bare_losses, mode):
    run = job(MODEL_LOOP, mode)
    assert (run.code, run.out) == (0, bare_losses[mode])
    summary = run.summary
    assert (summary["steps"]["count"], summary["steps"]["source"]) == (20, "framework_loop")
    assert summary["framework"]["mode"] == mode
    assert summary["hooks"]["failed"] == {}
    assert len(run.lines) == 2, run.err
    computing = {"graph": ["compile", "compute (graph)"], "pynative": ["forward", "backward", "optimizer"]}[mode]
    for phase in ["data", "sync", *computing]:
        assert phases(run)[phase] > 0, phase


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind in VARIANTS)) for kind in EXPECTED]
)
def test_steps_of_a_custom_loop(request, job, bare_loops, kind):
    run = request.getfixturevalue("plain") if kind == "plain" else job(CUSTOM_LOOP, kind)
    assert (run.code, run.out) == (0, bare_loops[kind])
    assert (run.summary["steps"]["count"], run.summary["steps"]["source"]) == EXPECTED[kind]


def test_phases_add_up_to_the_steps(plain):
    steps = rows(plain.result, "step_trace_time")
    assert [row["Step"] for row in steps] == [str(number) for number in range(6)]
    stages = sum(float(row["Stage"]) for row in steps) / 1e3
    assert sum(phases(plain).values()) == pytest.approx(stages, rel=0.01)


def test_modules_carry_their_place_in_the_network(plain):
    events = json.loads((plain.result / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    calls = [event["name"] for event in events if event["ph"] == "X"]
    assert calls.count("Net.first") == calls.count("Net.second") == 6


def test_dataset_pipelines_are_recorded_only_on_request(plain):
    assert not list(plain.result.glob("FRAMEWORK/process_*/pipelines"))
    assert plain.summary["dataset_pipelines"] == [] and plain.summary["not_collected"] == []


def test_fit_counts_training_steps_only_and_sees_checkpoints(job, tmp_path):
    run = job(PROGRAMS / "fit.py", str(tmp_path / "checkpoints"))
    assert run.code == 0, run.err
    assert run.summary["steps"]["count"] == 12
    assert phases(run)["checkpoint"] > 0


def test_schedule_records_the_requested_steps(job):
    run = job(MODEL_LOOP, "graph", options={"schedule": {"wait": 2, "active": 3, "repeat": 1, "skip_first": 1}})
    steps = run.summary["steps"]
    assert (steps["count"], steps["recorded"]) == (20, 3)
    events = json.loads((run.result / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    assert {event["name"] for event in events if event["name"].startswith("ProfilerStep#")} == {
        "ProfilerStep#3",
        "ProfilerStep#4",
        "ProfilerStep#5",
    }
