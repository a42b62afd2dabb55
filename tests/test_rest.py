"""Hooks rest between bursts, and nothing that needs them is lost."""

import contextlib
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
from ms_profiler.store.names import DATA_WAIT, EVALUATING

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
JOB = PROGRAMS / "torch_rest.py"
PARTS = ["begin", "evaluation", "skipped", "thread", "fork", "nested", "within", "derived", "derived rests", "copy"]
PARTS += ["replaced", "compiled", "after compilation", "second"]
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
def test_hooks_rest_before_each_part(done):
    assert done["resting"] == PARTS


@needs_torch
def test_every_step_is_counted(run, done):
    assert run.summary["steps"]["source"] == "optimizer_cycle"
    assert run.summary["steps"]["count"] == done["steps"]


@pytest.mark.slow
@needs_torch
@pytest.mark.parametrize(
    "way",
    ["around", "inherited", "base class hooked", "makes", "evaluates", "failed", "later hook"],
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
    assert done["child"] == 0, "the hooks of a child do not rest"
    (child,) = measures.recording.processes.filter(pl.col("role") == "fork")["process"]
    assert spans(measures, "forward", child).height == FEW


@needs_torch
def test_a_function_that_the_job_puts_in_place_of_a_hook_is_called(done):
    assert done["replaced"] >= 5 * FEW, "a call of the network and of each of its four layers"


@needs_torch
@pytest.mark.parametrize("title", ["forward", "backward", "zero_grad"])
def test_hooks_record_nothing_at_rest(measures, done, title):
    own = spans(measures, title).filter(pl.col("thread") == measures.steps.thread)
    assert done["at rest"] > 100
    assert 0 < own.height <= done["steps"] - done["at rest"] + FEW


@needs_torch
def test_sampled_steps_have_all_modules(measures):
    table = measures.steps.table.with_row_index("row")
    # a thread beside the steps calls a module, too
    own = pl.col("process") == measures.steps.process, pl.col("thread") == measures.steps.thread
    modules = measures.spans.filter(pl.col("category") == int(Category.MODULE), *own)
    compiled = spans(measures, "OptimizedModule")
    sampled = table.filter("recorded")
    assert sampled.height > 16 + 8
    for row in sampled.iter_rows(named=True):
        inside = pl.col("start_ns").is_between(row["start_ns"], row["end_ns"])
        assert modules.filter(inside).height == 5 or compiled.filter(inside).height == 1, row["number"]


@pytest.fixture(scope="module")
def loader(launch):
    return launch(PROGRAMS / "torch_loader_rest.py", options={"overhead_budget": 0.002}, env={"MS_PROFILER_RAISE": "1"})


@needs_torch
def test_a_loader_and_a_scheduler_call_no_python_code_in_the_usual_step_at_rest(loader):
    assert loader.code == 0, loader.err
    *_, found = json.loads(loader.out)
    rested = [calls for at_rest, calls in found if at_rest]
    assert rested, "a burst in each epoch"
    for calls in rested:
        # the first wait of an iterator, and the one that finds no batch
        waits = {"data.py before": 1, "data.py after": 2}
        assert waits.items() <= calls.items()
        assert not {"optimizers.py _begin", "optimizers.py _end"} & calls.keys()


@needs_torch
def test_all_waits_of_a_loader_are_recorded_and_its_end_is_known_at_rest(loader):
    quiet, epochs, found = json.loads(loader.out)
    rested = sum(at_rest for at_rest, _ in found)
    measures = engine.measured(str(loader.result))
    assert spans(measures, f"{DATA_WAIT}TensorDataset").height == epochs * (FEW + 1)
    assert 0 < spans(measures, "learning rate").height <= (epochs - rested) * FEW
    table = measures.steps.table
    assert table.height == epochs * FEW
    took = (table["end_ns"] - table["start_ns"]).gather([number * FEW for number in range(quiet, epochs)])
    assert took.median() < 0.1e9, "the sleep between two epochs belongs to no step"


WAITING = """
import json
import resting
optimizer = resting.torch.optim.SGD(resting.net.parameters(), lr=1e-9)
states = []
for step in range(400):
    resting.net(resting.x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    states.append(resting.rests())
print(json.dumps(states))
"""


@needs_torch
def test_hooks_rest_while_a_schedule_waits_and_its_steps_have_all_modules(launch):
    asked = {"wait": 150, "active": 3, "repeat": 2}
    run = launch(WAITING, options={"schedule": asked}, env={"MS_PROFILER_RAISE": "1", "PYTHONPATH": str(PROGRAMS)})
    assert run.code == 0, run.err
    states = json.loads(run.out)
    recorded = [150, 151, 152, 303, 304, 305]
    assert all(states[50:148]) and all(states[200:301]) and all(states[350:])
    assert not any(states[step - 1] for step in recorded), "what is known at the end of the step before"
    measures = engine.measured(str(run.result))
    table = measures.steps.table
    assert table["number"].to_list() == list(range(400))
    assert table.filter("recorded")["number"].to_list() == recorded
    modules = measures.spans.filter(pl.col("category") == int(Category.MODULE))
    forward = spans(measures, "forward")
    for row in table.filter("recorded").iter_rows(named=True):
        inside = pl.col("start_ns").is_between(row["start_ns"], row["end_ns"])
        assert (modules.filter(inside).height, forward.filter(inside).height) == (5, 1), row["number"]
    assert (modules.height, forward.height) == (5 * 6, 6)


@pytest.fixture
def calls():
    return []


@pytest.fixture
def hooks(calls):
    made = Rest(lambda what: Guard(lambda *reason: pytest.fail(str(reason)), what))
    made.switches.append(calls.append)
    return made


def test_hooks_record_for_some_steps_after_another_reason_than_a_burst(hooks, calls):
    hooks.begin(1600)
    hooks.end()
    assert calls == [True, False]
    hooks.begin(1601)
    hooks.end(1601)
    hooks.begin(1601 + rest.SHORT - 1)
    assert calls == [True, False, True, False] and not hooks.resting
    hooks.begin(1601 + rest.SHORT)
    assert calls[4:] == [True] and hooks.resting


def test_hooks_do_not_rest_any_more_after_a_stop(hooks, calls):
    hooks.begin(1)
    hooks.stop()
    hooks.begin(1000)
    assert calls == [True, False] and not hooks.resting


def test_an_exception_of_the_job_leaves_no_hook_at_rest_for_good(hooks, calls):
    state = SimpleNamespace(raises=False)

    def switch(on):
        if state.raises:
            raise KeyboardInterrupt

    hooks.switches.insert(0, switch)
    hooks.begin(1)
    state.raises = True
    with pytest.raises(KeyboardInterrupt):
        hooks.end()
    state.raises = False
    hooks.end()
    assert calls[-1] is False and not hooks.resting


@pytest.mark.parametrize("error", [KeyboardInterrupt, TypeError])
def test_hooks_record_if_the_begin_of_their_rest_fails(calls, error):
    hooks = Rest(lambda what: Guard(lambda *reason: None, what))

    def switch(on):
        calls.append(on)
        if on and len(calls) == 1:
            raise error

    hooks.switches.append(switch)
    with contextlib.suppress(KeyboardInterrupt):
        hooks.begin(1)
    assert calls == [True, False] and not hooks.resting
    hooks.begin(2)
    assert calls[2:] == [True] and hooks.resting


def test_the_end_of_a_rest_counts_although_another_thread_ends_an_earlier_one(hooks, calls):
    hooks.begin(1)
    hooks.resting = False  # the other thread sets this after the next rest has begun
    hooks.end()
    assert calls[-1] is False


@pytest.mark.parametrize("ends", [Rest.end, Rest.stop])
def test_hooks_record_if_a_signal_handler_ends_their_rest_while_it_begins(hooks, calls, ends):
    hooks.switches.insert(0, lambda on: ends(hooks) if on else None)
    hooks.begin(1)
    assert calls[-1] is False and not hooks.resting


def test_hooks_record_before_they_are_removed(hooks, calls):
    (switch,) = hooks.switches
    hooks.begin(1)
    hooks.drop([switch])
    assert calls == [True, False] and hooks.switches == []
