"""Jobs that only call a network have steps, too."""

import pytest
from conftest import PROGRAMS
from events import events, named, steps
from ms_profiler.job.boundaries import Leader
from ms_profiler.job.steps import Steps
from ms_profiler.store.format import Category, StepSource


@pytest.mark.parametrize(
    ("kind", "mode", "count"),
    [
        pytest.param("generate", "pynative", 10, marks=pytest.mark.slow),
        ("predict", "graph", 10),
        pytest.param("model", "pynative", 10, marks=pytest.mark.slow),
        ("loops", "pynative", 30),
    ],
)
def test_each_call_of_the_network_is_a_step(job, kind, mode, count):
    run = job(PROGRAMS / "inference.py", kind, mode, options={"analyse": "off"}, env={"MS_PROFILER_RAISE": "1"})
    assert run.code == 0, run.err
    found = events(run.result)
    assert {StepSource(step.category) for step in steps(found)} == {StepSource.NETWORK_CALL}
    assert [step.arg for step in steps(found)] == list(range(count))
    if kind == "generate":
        calls = [event for event in named(found, "LanguageModel") if event.category == Category.MODULE]
        assert all(
            step.start <= call.start and call.end <= step.end for step, call in zip(steps(found), calls, strict=True)
        )


class Notebook:
    """Stand in for a recorder and keep the steps."""

    def __init__(self):
        self.steps = []

    def intern(self, text):
        return 1

    def now(self):
        return 10**6

    def pause(self, paused):
        pass

    def record(self, kind, category, flags, name, start_ns, end_ns, arg):
        self.steps.append((start_ns, end_ns, StepSource(category)))
        return True


@pytest.fixture
def notebook():
    return Notebook()


def call(steps, network, start, end):
    steps.call_began(start)
    steps.call_ended(network, end)


def test_a_network_that_calls_another_is_one_call(notebook):
    steps = Steps(notebook)
    for at in (10, 20, 30):
        steps.call_began(at)
        call(steps, "inner", at + 1, at + 2)
        call(steps, "inner", at + 3, at + 4)
        steps.call_ended("outer", at + 5)
    assert [step[:2] for step in notebook.steps] == [(10, 15), (15, 25), (25, 35)]


def test_optimizer_and_batches_are_better(notebook):
    steps = Steps(notebook)
    steps.optimizer_made()
    for at in range(10, 50, 10):
        call(steps, "net", at, at + 5)
        steps.began(at)
        steps.turn_ended(StepSource.OPTIMIZER_CYCLE, "sgd", at + 8)
    assert {source for *_, source in notebook.steps} == {StepSource.OPTIMIZER_CYCLE}
    steps = Steps(other := Notebook())
    for at in range(10, 2000, 10):
        steps.batch_began(at)
        call(steps, "net", at + 1, at + 5)
    assert {source for *_, source in other.steps} == {StepSource.DATASET}


def test_optimizer_that_is_never_called_delays_the_steps_but_loses_none(notebook):
    steps = Steps(notebook)
    steps.optimizer_made()
    for at in range(10, 310, 10):
        call(steps, "net", at, at + 5)
    assert notebook.steps == []
    steps.close()
    assert len(notebook.steps) == 30


def test_optimizer_inside_another_is_not_waited_for(notebook):
    steps = Steps(notebook)
    steps.optimizer_made()
    steps.optimizer_made()
    steps.began(5)
    steps.turn_ended(StepSource.OPTIMIZER_CYCLE, "lars", 10)
    assert notebook.steps == []
    steps.optimizer_absorbed()
    steps.turn_ended(StepSource.OPTIMIZER_CYCLE, "lars", 20)
    assert [step[:2] for step in notebook.steps] == [(5, 10), (10, 20)]


def test_the_leader_is_the_first_network_that_is_called_again():
    leader = Leader()
    assert leader.called("encoder", 1) == []
    assert leader.called("decoder", 2) == []
    assert leader.called("decoder", 3) == [2, 3]
    assert leader.called("encoder", 4) == []
    assert leader.called("decoder", 5) == [5]
    assert [leader.called("other", at) for at in (6, 7, 8)] == [[], [], []]
    assert leader.called("other", 9) == [6, 7, 8, 9]
    assert leader.called("decoder", 10) == []


def test_leader_forgets_networks_that_are_called_once():
    leader = Leader()
    for number in range(1000):
        assert leader.called(number, number) == []
    assert len(leader._others) < 100
