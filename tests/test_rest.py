"""Hooks are taken away between bursts, and nothing that needs them is lost."""

import importlib.util
import json
from types import SimpleNamespace

import polars as pl
import pytest
from conftest import PROGRAMS
from ms_profiler.analysis.driver import engine
from ms_profiler.job import rest
from ms_profiler.job.guard import Guard
from ms_profiler.job.rest import Rest
from ms_profiler.store.format import Category
from ms_profiler.store.names import EVALUATING

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
JOB = PROGRAMS / "torch_rest.py"
PARTS = ["begin", "evaluation", "skipped", "thread", "fork", "nested", "within", "derived", "derived away", "copy"]
PARTS += ["replaced", "second"]
FEW = 20


@pytest.fixture(scope="module")
def run(launch):
    return launch(JOB, options={"overhead_budget": 0.002}, env={"MS_PROFILER_RAISE": "1"})


@pytest.fixture(scope="module")
def done(run):
    assert run.code == 0, run.err
    return json.loads(run.out.splitlines()[-1])


@pytest.fixture(scope="module")
def measures(run):
    return engine.measured(str(run.result))


def spans(measures, title, process=None):
    """Return the spans with a name, of one process; by default of the main process."""
    named = measures.spans.with_columns(title=measures.recording.names.gather(measures.spans["name"]))
    return named.filter(pl.col("title") == title, pl.col("process") == (process or measures.steps.process))


@needs_torch
def test_hooks_are_away_before_each_part_and_return_for_good_when_dynamo_traces(done):
    assert done["away"] == PARTS
    assert done["hooked"]


@needs_torch
def test_every_step_is_counted(run, done):
    assert run.summary["steps"]["source"] == "optimizer_cycle"
    assert run.summary["steps"]["count"] == done["steps"]


@needs_torch
@pytest.mark.parametrize(
    "way",
    [
        "around",
        "inherited",
        "base class hooked",
        *(pytest.param(way, marks=pytest.mark.slow) for way in ("makes", "evaluates", "failed", "later hook")),
    ],
)
def test_every_step_is_counted_where_steps_nest_while_only_their_ends_are_noted(launch, way):
    run = launch(PROGRAMS / "torch_counted.py", way, options={"overhead_budget": 0.002}, env={"MS_PROFILER_RAISE": "1"})
    assert run.code == 0, run.err
    done = json.loads(run.out.splitlines()[-1])
    assert done["counted"] is (way != "base class hooked")
    assert run.summary["steps"]["count"] == done["steps"]


@needs_torch
def test_an_evaluation_between_epochs_is_known_as_one(measures, done):
    found = spans(measures, EVALUATING)
    assert found.height == done["evaluated"] == FEW
    assert found.filter(pl.col("category") == int(Category.FORWARD)).height == FEW


@needs_torch
def test_a_fork_child_has_its_hooks(measures, done):
    assert done["child"] == 1
    (child,) = measures.recording.processes.filter(pl.col("role") == "fork")["process"]
    assert spans(measures, "forward", child).height == FEW


@needs_torch
def test_a_function_that_the_job_puts_in_place_of_a_hook_stays(done):
    assert done["replaced"] == 5 * FEW, "a call of the network and of each of its four layers"


@needs_torch
def test_sampled_steps_have_all_modules(measures, done):
    first, last = done["steps of replaced"]
    table = measures.steps.table.with_row_index("row")
    # a thread beside the steps calls a module, too
    own = pl.col("process") == measures.steps.process, pl.col("thread") == measures.steps.thread
    modules = measures.spans.filter(pl.col("category") == int(Category.MODULE), *own)
    for row in table.filter("recorded").head(-1).iter_rows(named=True):  # the last one is compiled
        inside = modules.filter(pl.col("start_ns").is_between(row["start_ns"], row["end_ns"]))
        assert inside.height == 5 or first <= row["number"] <= last, row["number"]


class Owner:
    value = 1


def made():
    found = Rest(lambda what: Guard(lambda *reason: pytest.fail(str(reason)), what))
    Owner.value = 2
    found.add([(lambda: Owner, "value", 1)], [2])
    return found


@pytest.mark.parametrize(("limited", "stay"), [(True, 100), (False, rest.SHORT)])
def test_hooks_stay_for_some_steps_after_another_reason_than_a_burst(monkeypatch, limited, stay):
    monkeypatch.setattr(rest, "LIMITED", limited)
    hooks = made()
    assert hooks.begin(1600) and Owner.value == 1
    hooks.end()
    assert Owner.value == 2
    assert hooks.begin(1601)
    hooks.end(1600)
    assert not hooks.begin(1600 + stay - 1) and Owner.value == 2
    assert hooks.begin(1600 + stay) and Owner.value == 1


def test_hooks_are_taken_away_a_limited_number_of_times(monkeypatch):
    monkeypatch.setattr(rest, "MOST", 3)
    hooks = made()
    for count in range(rest.MOST):
        assert hooks.begin(count)
        hooks.end()
    assert not hooks.begin(rest.MOST) and Owner.value == 2


def test_a_function_of_the_job_is_left_alone():
    hooks = made()
    Owner.value = 3
    assert not hooks.begin(1)
    assert Owner.value == 3 and not hooks.waiting, "nothing was taken away"
    hooks = made()
    assert hooks.begin(1)
    Owner.value = 3
    hooks.end()
    assert Owner.value == 3 and hooks.waiting and not hooks.begin(2)


def test_a_hook_returns_once_the_job_has_restored_the_function():
    hooks = made()
    assert hooks.begin(1)
    Owner.value = 3
    hooks.end()
    Owner.value = 1
    hooks.end()
    assert Owner.value == 2 and not hooks.waiting


def test_all_hooks_return_if_one_of_them_must_stay():
    hooks = made()
    hooks.switches.append(lambda away: not away)
    assert not hooks.begin(1)
    assert Owner.value == 2 and not hooks.resting


def test_an_exception_of_the_job_leaves_no_hook_away_for_good():
    hooks = made()
    state = SimpleNamespace(raises=False)

    def switch(away):
        if state.raises:
            raise KeyboardInterrupt
        return True

    hooks.switches.insert(0, switch)
    assert hooks.begin(1)
    state.raises = True
    with pytest.raises(KeyboardInterrupt):
        hooks.end()
    state.raises = False
    hooks.end()
    assert Owner.value == 2 and not hooks.resting


def test_hooks_return_if_a_signal_handler_wants_them_while_they_are_taken_away():
    hooks = made()

    def interrupted(away):
        if away:
            hooks.stop()
        return True

    hooks.switches.insert(0, interrupted)
    hooks.begin(1)
    assert Owner.value == 2 and not hooks.resting


def test_removed_hooks_are_put_back_first():
    hooks = made()
    (switch,) = hooks.switches
    assert hooks.begin(1)
    hooks.drop([switch])
    assert Owner.value == 2 and hooks.switches == []
