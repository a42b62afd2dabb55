import threading

import pytest
from ms_profiler.job.boundaries import PENDING, cycle_length
from ms_profiler.job.schedule import Schedule
from ms_profiler.job.steps import Steps
from ms_profiler.store.format import Flag, Kind, StepSource


class Notebook:
    """A recorder that keeps what it is given."""

    kind = "python"

    def __init__(self):
        self.steps = []
        self.paused = False
        self.names = []

    def intern(self, text):
        self.names.append(text)
        return len(self.names)

    def pause(self, paused):
        self.paused = paused

    def record(self, kind, category, flags, name, start_ns, end_ns, arg):
        assert kind == Kind.STEP
        self.steps.append((arg, start_ns, end_ns, StepSource(category), flags))
        return True


@pytest.fixture
def notebook():
    return Notebook()


def intervals(notebook):
    return [(start, end) for _, start, end, _, _ in notebook.steps]


def test_framework_loop_decides_at_once_and_counts_each_batch(notebook):
    steps = Steps(notebook)
    steps.loop_began()
    for at in (10, 20, 30):
        steps.batch_began(at)
        steps.optimizer_ended("sgd", at + 5)
        steps.ended(StepSource.FRAMEWORK_LOOP, at + 8)
    steps.batch_began(40)
    steps.batches_ended()
    steps.loop_ended()
    steps.close()
    assert notebook.steps == [
        (0, 10, 18, StepSource.FRAMEWORK_LOOP, 0),
        (1, 18, 28, StepSource.FRAMEWORK_LOOP, 0),
        (2, 28, 38, StepSource.FRAMEWORK_LOOP, 0),
    ]


def test_second_epoch_begins_with_its_first_batch(notebook):
    steps = Steps(notebook)
    steps.loop_began()
    for at in (10, 100):
        steps.batch_began(at)
        steps.ended(StepSource.FRAMEWORK_LOOP, at + 8)
        steps.batch_began(at + 9)
        steps.batches_ended()
    assert intervals(notebook) == [(10, 18), (100, 108)]


def test_evaluation_inside_training_is_in_no_step(notebook):
    steps = Steps(notebook)
    steps.loop_began()
    steps.batch_began(10)
    steps.ended(StepSource.FRAMEWORK_LOOP, 20)
    steps.suspend()
    steps.batch_began(30)
    steps.ended(StepSource.FRAMEWORK_LOOP, 40)
    steps.resume()
    steps.batch_began(50)
    steps.ended(StepSource.FRAMEWORK_LOOP, 60)
    assert intervals(notebook) == [(10, 20), (50, 60)]


def test_one_optimizer_ends_a_step_with_each_call(notebook):
    chosen = []
    steps = Steps(notebook, decided=chosen.append)
    steps.optimizer_made()
    for at in (10, 20):
        steps.batch_began(at)
        steps.optimizer_ended("sgd", at + 5)
    steps.close()
    assert chosen == [StepSource.OPTIMIZER_CYCLE]
    assert intervals(notebook) == [(10, 15), (15, 25)]


def test_accumulated_batches_are_one_step(notebook):
    steps = Steps(notebook)
    steps.optimizer_made()
    at = 0
    for _ in range(3):
        for _ in range(4):
            at += 10
            steps.batch_began(at)
        steps.optimizer_ended("sgd", at + 5)
    steps.close()
    assert intervals(notebook) == [(10, 45), (45, 85), (85, 125)]


@pytest.mark.parametrize("cycle", [["d", "g"], ["d", "d", "d", "g"], ["g", "d", "d"]])
def test_two_optimizers_are_one_step(notebook, cycle):
    steps = Steps(notebook)
    steps.optimizer_made()
    steps.optimizer_made()
    steps.began(0)
    at = 0
    for _ in range(5):
        for name in cycle:
            at += 10
            steps.optimizer_ended(name, at)
    steps.close()
    length = 10 * len(cycle)
    assert intervals(notebook) == [(index * length, (index + 1) * length) for index in range(5)]


def test_optimizer_that_is_never_called_does_not_hide_the_steps(notebook):
    steps = Steps(notebook)
    steps.optimizer_made()
    steps.optimizer_made()
    steps.began(0)
    for index in range(PENDING):
        steps.optimizer_ended("sgd", index + 1)
    steps.close()
    assert intervals(notebook) == [(index, index + 1) for index in range(PENDING)]


def test_cycle_waits_for_every_known_optimizer():
    assert cycle_length(["d", "d", "d"], 2) == 0
    assert cycle_length(["d", "d", "g", "d", "d"], 2) == 0
    assert cycle_length(["d", "d", "g", "d", "d", "g"], 2) == 3


def test_train_cell_counts_when_no_optimizer_is_seen(notebook):
    steps = Steps(notebook)
    for at in (10, 20, 30):
        steps.began(at)
        steps.ended(StepSource.TRAIN_CELL, at + 5)
    assert [step[3] for step in notebook.steps] == [StepSource.TRAIN_CELL] * 3
    assert intervals(notebook) == [(10, 15), (15, 25), (25, 35)]


def test_dataset_counts_when_nothing_else_speaks(notebook):
    steps = Steps(notebook)
    for at in (10, 20, 30, 40):
        steps.batch_began(at)
    steps.batches_ended()
    steps.close()
    assert intervals(notebook) == [(10, 20), (20, 30), (30, 40)]
    assert {step[3] for step in notebook.steps} == {StepSource.DATASET}


def test_loop_that_begins_later_takes_over_and_numbers_go_on(notebook):
    steps = Steps(notebook)
    steps.optimizer_made()
    steps.began(0)
    steps.optimizer_ended("sgd", 5)
    steps.loop_began()
    steps.batch_began(10)
    steps.optimizer_ended("sgd", 15)
    steps.ended(StepSource.FRAMEWORK_LOOP, 18)
    assert [(step[0], step[3]) for step in notebook.steps] == [
        (0, StepSource.OPTIMIZER_CYCLE),
        (1, StepSource.FRAMEWORK_LOOP),
    ]


def test_another_thread_is_not_listened_to(notebook):
    steps = Steps(notebook)
    steps.loop_began()
    steps.batch_began(10)

    def other():
        steps.batch_began(11)
        steps.ended(StepSource.FRAMEWORK_LOOP, 12)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    steps.ended(StepSource.FRAMEWORK_LOOP, 20)
    assert intervals(notebook) == [(10, 20)]


def test_schedule_pauses_and_marks_what_was_not_recorded(notebook):
    steps = Steps(notebook, Schedule(wait=1, active=2, repeat=1))
    assert notebook.paused
    paused = []
    steps.loop_began()
    for at in range(0, 50, 10):
        steps.batch_began(at)
        steps.ended(StepSource.FRAMEWORK_LOOP, at + 5)
        paused.append(notebook.paused)
    assert paused == [False, False, True, True, True]
    unrecorded = int(Flag.UNRECORDED)
    assert [step[4] for step in notebook.steps] == [unrecorded, 0, 0, unrecorded, unrecorded]


def test_nothing_known_writes_no_step(notebook):
    steps = Steps(notebook)
    steps.began(0)
    steps.close()
    assert notebook.steps == []


def test_work_between_steps_turns_no_step_around(notebook):
    """A call of the network is known to end a step only when the next one comes; a drain may lie between."""
    notebook.now = lambda: 10**9
    steps = Steps(notebook, stepped=lambda count: True)
    for at in range(0, 400, 10):
        steps.call_began(at)
        steps.call_ended("net", at + 5)
    steps.close()
    assert len(notebook.steps) > 30
    assert all(start < end for start, end in intervals(notebook))
