"""The steps of a job whose script may report them, through a profiler of its own."""

import pytest
from ms_profiler.job.script_steps import AWAITED, ScriptSteps
from ms_profiler.store.format import StepSource
from test_steps import Notebook, intervals

SCRIPT, OPTIMIZER = StepSource.SCRIPT, StepSource.OPTIMIZER_CYCLE


@pytest.fixture
def notebook():
    return Notebook()


def test_steps_before_a_step_of_the_script_stay(notebook):
    steps = ScriptSteps(notebook)
    for at in range(0, 100, 10):
        steps.call_began(at)
        steps.call_ended("net", at + 5)
    steps.script_began(100)
    steps.ended(SCRIPT, 110)
    steps.script_ended()
    steps.began(120)
    steps.optimizer_made()
    steps.turn_ended(OPTIMIZER, "sgd", 130)
    assert [step[0] for step in notebook.steps] == list(range(12))


def trained(steps, iterations, reports):
    """Train for some iterations of 100 ns. The optimizer ends after 90 ns, and then the script `reports` a step."""
    for at in range(100, 100 * iterations + 1, 100):
        steps.began(at - 100)
        steps.turn_ended(OPTIMIZER, "sgd", at - 10)
        if reports:
            steps.ended(SCRIPT, at)


def test_steps_of_the_script_continue_those_of_the_optimizer(notebook):
    """The optimizer ends the first step. The first report of the script is 10 ns later, in the same iteration."""
    steps = ScriptSteps(notebook)
    steps.optimizer_made()
    steps.script_began(0)
    trained(steps, 4, reports=True)
    assert intervals(notebook) == [(0, 90), (90, 200), (200, 300), (300, 400)]


@pytest.mark.parametrize("iterations", [1, 5, AWAITED, 3 * AWAITED])
def test_optimizers_decide_if_the_script_announces_steps_and_reports_none(notebook, iterations):
    steps = ScriptSteps(notebook, stepped=lambda count: count <= AWAITED)
    notebook.now = lambda: 1_000_000
    steps.optimizer_made()
    steps.script_began(0, decides=True)
    trained(steps, iterations, reports=False)
    steps.script_ended()
    steps.close()
    ends = [100 * number + 90 for number in range(iterations)]
    assert intervals(notebook) == list(zip([0, *ends], ends, strict=False))


def test_a_late_report_of_the_script_decides(notebook):
    steps = ScriptSteps(notebook)
    steps.optimizer_made()
    steps.script_began(0, decides=True)
    trained(steps, AWAITED, reports=False)
    before, at = len(notebook.steps), 100 * AWAITED
    for _ in range(3):
        steps.ended(SCRIPT, at)
        steps.turn_ended(OPTIMIZER, "sgd", at + 50)
        at += 100
    steps.ended(SCRIPT, at)
    assert intervals(notebook)[before:] == [(at - 310, at - 200), (at - 200, at - 100), (at - 100, at)]


def test_only_reports_of_the_script_count_once_it_reports(notebook):
    steps = ScriptSteps(notebook)
    steps.optimizer_made()
    steps.script_began(0, decides=True)
    trained(steps, 3, reports=True)
    steps.turn_ended(OPTIMIZER, "sgd", 350)
    steps.script_ended()
    assert intervals(notebook) == [(0, 100), (100, 200), (200, 300)]


def test_work_of_the_profiler_between_two_steps_belongs_to_no_step(notebook):
    steps = ScriptSteps(notebook)
    steps.optimizer_made()
    trained(steps, 2, reports=False)
    steps.profiler_worked(1_000)
    steps.began(1_010)
    steps.turn_ended(OPTIMIZER, "sgd", 1_100)
    steps.began(1_110)
    steps.profiler_worked(2_000)
    steps.turn_ended(OPTIMIZER, "sgd", 2_100)
    assert intervals(notebook) == [(0, 90), (90, 190), (1_000, 1_100), (1_100, 2_100)]


def iterated(steps, batches, at, end=lambda at: None):
    """Run a framework's loop of one epoch: each iteration takes 100 ns, and after 90 ns a callback calls `end`."""
    steps.loop_began()
    for begin in range(at, at + 100 * batches, 100):
        steps.batch_began(begin)
        steps.began(begin + 10)
        end(begin + 90)
        steps.ended(StepSource.FRAMEWORK_LOOP, begin + 95)
    steps.batch_began(at + 100 * batches)
    steps.batches_ended()
    steps.loop_ended()


@pytest.mark.parametrize("decides", [True, False])
def test_each_epoch_of_a_framework_loop_begins_a_step_of_the_script(notebook, decides):
    steps = ScriptSteps(notebook)
    steps.script_began(0, decides=decides)
    for at in (1000, 2000):
        iterated(steps, 3, at, lambda at: steps.ended(SCRIPT, at))
    first, second = ([(at, at + 90), (at + 90, at + 190), (at + 190, at + 290)] for at in (1000, 2000))
    assert intervals(notebook) == first + second


def test_each_epoch_of_the_scripts_own_loop_begins_a_step_of_the_script(notebook):
    steps = ScriptSteps(notebook)
    steps.script_began(0, decides=True)
    for epoch in (1000, 2000):
        for at in (epoch, epoch + 100):
            steps.batch_began(at)
            steps.began(at + 10)
            steps.turn_ended(OPTIMIZER, "sgd", at + 80)
            steps.ended(SCRIPT, at + 90)
        steps.batch_began(epoch + 200)
        steps.batches_ended()
    assert intervals(notebook) == [(0, 1090), (1090, 1190), (2000, 2090), (2090, 2190)]


@pytest.mark.parametrize("batches", [1, 3])
def test_a_call_of_a_framework_loop_may_be_one_step_of_the_script(notebook, batches):
    """The loop of the evaluation, after the training, is a part of the step."""
    steps = ScriptSteps(notebook)
    steps.script_began(0, decides=True)
    for at in (1000, 2000):
        iterated(steps, batches, at)
        steps.suspend()
        steps.resume()
        steps.batch_began(at + 500)
        steps.batches_ended()
        steps.ended(SCRIPT, at + 700)
    assert intervals(notebook) == [(1000, 1700), (2000, 2700)]
