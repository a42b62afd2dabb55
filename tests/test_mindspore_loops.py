"""The steps of loops in MindSpore's Model are recognised."""

import json
from collections import Counter

import pytest
from conftest import PROGRAMS
from events import events, inside, steps
from ms_profiler.cli import main
from ms_profiler.store.format import Category, StepSource
from ms_profiler.store.names import EVALUATING


@pytest.fixture(scope="module")
def bare(launch):
    """Return the output without the profiler, on a processor and on the stand-in for a device."""
    run = launch(PROGRAMS / "sink.py", "cpu", "device", profile=False)
    assert run.code == 0, run.err
    return dict(zip(("cpu", "device"), run.out.splitlines(keepends=True), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "steps", "what"), [("cpu", 12, "data sinking"), ("device", 3, "steps inside a data sink")]
)
def test_data_sinking_is_said_and_its_steps_are_sinks(job, bare, where, steps, what):
    run = job(PROGRAMS / "sink.py", where, env={"MS_PROFILER_RAISE": "1"})
    assert (run.code, run.out) == (0, bare[where]), run.err
    summary = json.loads((run.result / "summary.json").read_text())
    assert (summary["steps"]["count"], summary["steps"]["source"]) == (steps, "framework_loop")
    assert [note["what"] for note in summary["not_collected"]] == [what]
    calls = [event.name for event in events(run.result) if event.name == "send dataset"]
    assert len(calls) == (where == "device")


@pytest.mark.slow
def test_a_slow_callback_is_named(job, capsys):
    run = job(PROGRAMS / "callbacks_mindspore.py", env={"MS_PROFILER_RAISE": "1"})
    assert (run.code, run.out) == (0, "True True\n"), run.err
    called = Counter(event.name for event in events(run.result) if event.name.startswith("callback "))
    # each of the two callbacks runs Quick.step_end, in the second case inside of its own method
    steps = {"callback Slow.on_train_step_end": 12, "callback Quick.step_end": 24}
    assert called == {**steps, "callback Slow.on_train_epoch_end": 1}
    summary = json.loads((run.result / "summary.json").read_text())
    assert "asleep or blocked, most of it in callback Slow.on_train_step_end" in summary["verdict"]
    assert {row["callback"]: row["count"] for row in summary["callbacks"]} == {
        name.removeprefix("callback "): count for name, count in called.items()
    }
    slow = summary["callbacks"][0]
    assert slow["callback"] == "Slow.on_train_step_end" and slow["total_ms"] > 1200
    assert main(["summary", "--all", str(run.result)]) == 0
    assert "Callbacks, in and outside of steps" in capsys.readouterr().out
    (advice,) = [each for each in summary["advice"] if each["cause"] == "host-waits"]
    assert "most of it in the own code of callback Slow.on_train_step_end" in advice["evidence"]


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        *(pytest.param(kind, StepSource.TRAIN_CELL, marks=pytest.mark.slow) for kind in ("one", "method")),
        ("two", StepSource.TRAIN_CELL),
        ("rate", StepSource.OPTIMIZER_CYCLE),
    ],
)
def test_calls_of_a_compiled_function_with_an_optimizer_are_the_steps(job, kind, source):
    run = job(PROGRAMS / "compiled_training.py", kind, options={"analyse": "off"}, env={"MS_PROFILER_RAISE": "1"})
    assert run.code == 0, run.err
    found = events(run.result)
    assert [StepSource(step.category) for step in steps(found)] == [source] * 24
    calls = [event for event in found if event.name == EVALUATING]
    graphs = [event for event in found if event.category == Category.GRAPH and inside(event, calls)]
    assert [len(calls), *(graph.name for graph in graphs)] == [18, *["jit evaluate"] * 18]


@pytest.mark.slow
def test_steps_are_the_same_if_the_graph_comes_from_the_cache_of_compiled_graphs(job, tmp_path):
    env = {"MS_PROFILER_RAISE": "1", "MS_COMPILER_CACHE_ENABLE": "1", "MS_COMPILER_CACHE_PATH": str(tmp_path / "cache")}
    for _ in range(2):
        run = job(PROGRAMS / "compiled_training.py", "one", options={"analyse": "off"}, env=env)
        assert run.code == 0, run.err
        found = [StepSource(step.category) for step in steps(events(run.results[-1]))]
        assert found == [StepSource.TRAIN_CELL] * 24


@pytest.mark.parametrize(
    ("kind", "count"),
    [("turns", 10), *(pytest.param(*each, marks=pytest.mark.slow) for each in (("compiled", 20), ("failing", 17)))],
)
def test_a_validation_of_the_own_loop_is_an_evaluation_in_no_step(job, kind, count):
    run = job(PROGRAMS / "validation_mindspore.py", kind, env={"MS_PROFILER_RAISE": "1"})
    assert run.code == 0, run.err
    assert (run.summary["steps"]["count"], run.summary["steps"]["source"]) == (count, "optimizer_cycle")
    parts = {part["part"]: part for part in run.summary["whole_run"][0]["parts"]}
    own = float(run.out.splitlines()[-1])
    assert parts["evaluation"]["total_ns"] / 1e9 == pytest.approx(own, rel=0.1)
    assert parts.get("network calls", {"share": 0})["share"] < 0.05
