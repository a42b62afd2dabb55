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
    assert intervals(notebook)[before:] == [(at - 310, at - 250), (at - 250, at - 100), (at - 100, at)]


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
