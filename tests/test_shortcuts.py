"""Steps that are not sampled: what the extension does without Python leaves the same records as the Python code."""

import importlib.util
import json
from pathlib import Path

import polars as pl
import pytest
from conftest import PROGRAMS
from ms_profiler.analysis.driver import engine
from ms_profiler.store import layout
from ms_profiler.store.format import Category, Flag
from ms_profiler.store.names import EVALUATING

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")

JOB = PROGRAMS / "torch_unusual_steps.py"


@pytest.fixture(scope="module")
def run(launch):
    return launch(JOB, "stay", options={"overhead_budget": 0.002}, env={"MS_PROFILER_RAISE": "1"})


@pytest.fixture(scope="module")
def done(run):
    """Return how often the job did each thing."""
    return json.loads(run.out.splitlines()[-1])


@pytest.fixture(scope="module")
def spans(run):
    """Return the spans outside of operators and modules, with their names."""
    measures = engine.measured(str(run.result))
    found = measures.spans.filter(pl.col("category").is_in([Category.FORWARD, Category.BACKWARD, Category.OPTIMIZER]))
    return found.with_columns(title=measures.recording.names.gather(found["name"]))


def count(spans, title, flags=0):
    kept = spans.filter(pl.col("title") == title, (pl.col("flags") & int(Flag.RAISED)) == flags)
    return kept.height


def test_most_steps_take_the_shortcut(run, done):
    assert run.summary["sampling"]["sampled"] < done["steps"] / 2
    assert done["shortcuts"] > done["steps"] / 2


def test_each_call_has_its_span(spans, done):
    beside = done["beside"]
    assert count(spans, "forward") == done["forward"] + beside
    assert count(spans, EVALUATING) == done["evaluated"]
    assert count(spans, "backward") == done["backward"] + beside
    assert count(spans, "autograd.grad") == done["gradients"]
    assert count(spans, "SGD.step") == done["steps"] - done["inner"] + beside
    assert count(spans, "SGD.step", int(Flag.RAISED)) == done["failed"]
    assert count(spans, "Adagrad.step") == done["inner"]
    assert count(spans, "Outer.step") == 2 * done["inner"], "PyTorch calls its hooks for both classes"


def test_spans_of_a_thread_do_not_overlap_within_a_category(spans):
    outermost = spans.filter(pl.col("category") == int(Category.BACKWARD)).sort("thread", "start_ns")
    later = outermost["start_ns"].shift(-1) >= outermost["end_ns"]
    assert later.filter(outermost["thread"] == outermost["thread"].shift(-1)).all()


def test_steps_are_those_of_the_training_thread(run, done):
    assert run.summary["steps"]["source"] == "optimizer_cycle"
    assert run.summary["steps"]["count"] == pytest.approx(done["steps"], abs=1), "the first step may be incomplete"


@pytest.mark.slow
def test_the_time_of_hooks_is_theirs_alone(launch):
    """The job calls a function of 2 ms through a hook of 0.5 ms, and measures the function itself."""
    run = launch(PROGRAMS / "torch_slow_hook.py", options={"overhead_budget": 0.001}, env={"MS_PROFILER_RAISE": "1"})
    cost = json.loads(Path(layout.run_info_path(str(run.result))).read_text())["cost"]
    assert cost["hooks_steps"] >= 8
    assert 0.5e6 <= cost["hooks_own_ns"] < float(run.out)


@pytest.mark.slow
def test_a_compiled_step_of_an_optimizer_runs(launch):
    job = PROGRAMS / "torch_compiled_step.py"
    bare = launch(job, profile=False)
    run = launch(job, env={"MS_PROFILER_RAISE": "1"})
    assert run.code == bare.code == 0, run.err
    assert run.out == bare.out


@pytest.mark.slow
def test_an_exception_of_a_signal_handler_reaches_the_job(launch):
    """PyTorch's functions in Python that say whether it compiles may receive a signal."""
    run = launch(PROGRAMS / "torch_interrupted.py", options={"overhead_budget": 0.002})
    sent, got = map(int, run.out.split())
    assert run.code == 0 and sent == got, run.err
