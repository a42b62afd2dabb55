import random
import subprocess
import sys
import threading

import polars as pl
import pytest
from ms_profiler.analysis.readers import guesses
from ms_profiler.job.boundaries import PENDING, Track
from ms_profiler.job.listener import Listener
from ms_profiler.job.schedule import Schedule
from ms_profiler.job.steps import Steps
from ms_profiler.job.turns import INCOMPLETE, Turns, cycle_length
from ms_profiler.store.format import Flag, Kind, StepSource


class Notebook:
    """A recorder that keeps what it is told in lists."""

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


def update(steps, names, at):
    """Report a call of each of these optimizers, 10 ns after one another; return the time of the last call."""
    for name in names:
        at += 10
        steps.turn_ended(StepSource.OPTIMIZER_CYCLE, name, at)
    return at


def intervals(notebook):
    return [(start, end) for _, start, end, _, _ in notebook.steps]


def test_framework_loop_decides_at_once_and_counts_each_batch(notebook):
    steps = Steps(notebook)
    steps.loop_began()
    for at in (10, 20, 30):
        steps.batch_began(at)
        steps.turn_ended(StepSource.OPTIMIZER_CYCLE, "sgd", at + 5)
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
        steps.turn_ended(StepSource.OPTIMIZER_CYCLE, "sgd", at + 5)
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
        steps.turn_ended(StepSource.OPTIMIZER_CYCLE, "sgd", at + 5)
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
            steps.turn_ended(StepSource.OPTIMIZER_CYCLE, name, at)
    steps.close()
    length = 10 * len(cycle)
    assert intervals(notebook) == [(index * length, (index + 1) * length) for index in range(5)]


def test_an_optimizer_that_is_made_late_joins_the_step(notebook):
    steps = Steps(notebook)
    steps.optimizer_made()
    steps.began(0)
    at = 0
    for index in range(12):
        if index == 5:
            steps.optimizer_made()
        for name in ["d"] if index < 5 else ["d", "g"]:
            at += 10
            steps.turn_ended(StepSource.OPTIMIZER_CYCLE, name, at)
    steps.close()
    assert len(notebook.steps) == 12


def test_the_kind_of_step_is_reported_once_for_many_optimizers(notebook):
    reported = []
    steps = Steps(notebook, decided=reported.append)
    for number in range(100):
        steps.optimizer_made()
        steps.turn_ended(StepSource.OPTIMIZER_CYCLE, number, 10 * number)
        steps.optimizer_absorbed()
    steps.close()
    assert len(notebook.steps) == 100
    # each report writes the run's record, which takes 5 ms of the job's time
    assert reported == [StepSource.OPTIMIZER_CYCLE]


def test_another_optimizer_for_the_rest_of_the_training_begins_steps_of_its_own(notebook):
    steps = Steps(notebook)
    steps.optimizer_made()
    steps.began(0)
    for at in range(10, 200, 10):
        if at == 50:
            steps.optimizer_made()
        steps.turn_ended(StepSource.OPTIMIZER_CYCLE, "warm-up" if at < 50 else "training", at)
        if at == 150:
            assert len(notebook.steps) == 15
    steps.close()
    assert intervals(notebook) == [(at - 10, at) for at in range(10, 200, 10)]


def test_optimizer_that_is_never_called_does_not_hide_the_steps(notebook):
    steps = Steps(notebook)
    steps.optimizer_made()
    steps.optimizer_made()
    steps.began(0)
    for index in range(PENDING):
        steps.turn_ended(StepSource.OPTIMIZER_CYCLE, "sgd", index + 1)
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
        steps.turn_ended(StepSource.TRAIN_CELL, "cell", at + 5)
    assert [step[3] for step in notebook.steps] == [StepSource.TRAIN_CELL] * 3
    assert intervals(notebook) == [(10, 15), (15, 25), (25, 35)]


def test_the_dataset_defines_steps_without_another_source(notebook):
    steps = Steps(notebook)
    for at in (10, 20, 30, 40):
        steps.batch_began(at)
    steps.batches_ended()
    steps.close()
    assert intervals(notebook) == [(10, 20), (20, 30), (30, 40)]
    assert {step[3] for step in notebook.steps} == {StepSource.DATASET}


def test_a_later_loop_takes_over_and_numbers_continue(notebook):
    steps = Steps(notebook)
    steps.optimizer_made()
    steps.began(0)
    steps.turn_ended(StepSource.OPTIMIZER_CYCLE, "sgd", 5)
    steps.loop_began()
    steps.batch_began(10)
    steps.turn_ended(StepSource.OPTIMIZER_CYCLE, "sgd", 15)
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


def test_schedule_pauses_and_marks_unrecorded_steps(notebook):
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


def scheduled(notebook, schedule, count, between=lambda steps: None):
    """Train `count` steps under a schedule; return for each step whether it began paused, and the looks between them.

    `between` is called with the steps, after each step, in place of what the session does between two steps.
    """
    looks, paused = [], []

    def stepped(number):
        looks.append(number)
        steps.next_look = number + 1  # as a source that looks at each step
        if steps.idle:
            steps.next_look = number + steps.idle
        return False

    steps = Steps(notebook, schedule, stepped=stepped)
    for at in range(0, 10 * count, 10):
        steps.began(at)
        paused.append(notebook.paused)
        steps.turn_ended(StepSource.OPTIMIZER_CYCLE, "sgd", at + 10)
        between(steps)
    return paused, looks


def test_nothing_is_done_between_steps_that_are_far_from_recorded_ones(notebook):
    schedule = Schedule(wait=50, active=2, repeat=2)
    paused, looks = scheduled(notebook, schedule, 500)
    assert [step[0] for step in notebook.steps] == list(range(500))
    recorded = [step for step in range(500) if schedule.records(step)]
    assert recorded == [50, 51, 102, 103]
    assert [step for step, flag in enumerate(paused) if not flag] == recorded
    assert [step[0] for step in notebook.steps if not step[4] & int(Flag.UNRECORDED)] == recorded
    near = {number for step in recorded for number in range(step - 1, step + 3)}
    assert near <= set(looks) and len(looks) <= len(near) + 8


def test_steps_between_are_recorded_when_another_recording_begins(notebook):
    def between(steps):
        if steps.count in (20, 30):
            steps.override_schedule(steps.count == 20)

    paused, looks = scheduled(notebook, Schedule(wait=50, active=2), 60, between)
    assert [step for step, flag in enumerate(paused) if not flag] == [*range(20, 30), 50, 51]
    assert set(range(21, 32)) <= set(looks)
    assert [step[0] for step in notebook.steps] == list(range(60))


def test_without_a_source_no_step_is_written(notebook):
    steps = Steps(notebook)
    steps.began(0)
    steps.close()
    assert notebook.steps == []


def test_work_between_steps_turns_no_step_around(notebook):
    """A step of network calls begins with its call, even if `stepped` has done work after the call before it.

    That a call ended a step is known only when the next call has begun. A begin after the work would be after that.
    """
    notebook.now = lambda: 10**9
    steps = Steps(notebook, stepped=lambda count: True)
    for at in range(0, 400, 10):
        steps.call_began(at)
        steps.call_ended("net", at + 5)
    steps.close()
    assert len(notebook.steps) > 30
    assert all(start < end for start, end in intervals(notebook))


def test_a_running_loop_continues_when_another_recording_begins(notebook):
    steps = Steps(notebook)
    steps.loop_began()
    steps.batch_began(10)
    steps.ended(StepSource.FRAMEWORK_LOOP, 20)
    steps.reset()
    steps.batch_began(30)
    for at in (35, 40):
        steps.turn_ended(StepSource.OPTIMIZER_CYCLE, "sgd", at)
    steps.ended(StepSource.FRAMEWORK_LOOP, 45)
    steps.loop_ended()
    assert notebook.steps[1:] == [(0, 30, 45, StepSource.FRAMEWORK_LOOP, 0)]


def test_a_fork_child_is_in_no_loop_of_its_parent(notebook):
    steps = Steps(notebook)
    steps.loop_began()
    steps.suspend()
    steps.forked()
    for at in range(10, 50, 10):
        steps.batch_began(at)
        steps.turn_ended(StepSource.OPTIMIZER_CYCLE, "sgd", at + 5)
    steps.loop_ended()
    steps.resume()
    steps.batch_began(60)
    steps.turn_ended(StepSource.OPTIMIZER_CYCLE, "sgd", 65)
    assert {source for _, _, _, source, _ in notebook.steps} == {StepSource.OPTIMIZER_CYCLE}
    assert len(notebook.steps) == 5


def of(notebook, source):
    return [(number, start, end) for number, start, end, kind, _ in notebook.steps if kind == source]


def test_optimizer_that_comes_late_is_numbered_from_its_own_first_step(notebook):
    """Network calls that counted as steps before the training were a rollout; the schedule begins again."""
    chosen = []
    steps = Steps(notebook, Schedule(wait=1, active=1, repeat=1), decided=chosen.append)
    for at in range(0, 2000, 10):
        steps.call_began(at)
        steps.call_ended("policy", at + 5)
    assert len(of(notebook, StepSource.NETWORK_CALL)) == 200
    assert notebook.paused
    steps.optimizer_made()
    states = []
    for at in range(3000, 3300, 100):
        steps.began(at)
        steps.began(at + 10)
        steps.turn_ended(StepSource.OPTIMIZER_CYCLE, "sgd", at + 50)
        states.append(notebook.paused)
    assert chosen == [StepSource.NETWORK_CALL, StepSource.OPTIMIZER_CYCLE]
    assert of(notebook, StepSource.OPTIMIZER_CYCLE) == [(0, 3000, 3050), (1, 3050, 3150), (2, 3150, 3250)]
    assert states == [False, True, True]
    assert (steps.number, steps.trains) == (3, True)


@pytest.mark.parametrize("first", [StepSource.DATASET, StepSource.EVALUATION_LOOP])
def test_training_revokes_steps_of_an_evaluation(notebook, first):
    steps = Steps(notebook)
    if first == StepSource.EVALUATION_LOOP:
        steps.loop_began()
    for at in range(0, 1000, 10):
        steps.batch_began(at)
        if first == StepSource.EVALUATION_LOOP:
            steps.ended(first, at + 5)
    if first == StepSource.EVALUATION_LOOP:
        steps.loop_ended()
    assert len(of(notebook, first)) >= 99
    assert not steps.trains
    steps.optimizer_made()
    for at in range(2000, 2100, 10):
        steps.began(at)
        steps.turn_ended(StepSource.OPTIMIZER_CYCLE, "sgd", at + 5)
    assert [number for number, *_ in of(notebook, StepSource.OPTIMIZER_CYCLE)] == list(range(10))


@pytest.mark.parametrize(
    ("calls", "count"),
    [("dg", 1), ("dddddg", 1), ("dddddgdd", 1), ("dgdgdg", 3), ("dgd", 1), ("ddddgggg", 8), ("d", 1)],
)
def test_sequence_that_ends_before_it_repeats(notebook, calls, count):
    steps = Steps(notebook)
    steps.optimizer_made()
    steps.optimizer_made()
    steps.began(0)
    for at, which in enumerate(calls, 1):
        steps.turn_ended(StepSource.OPTIMIZER_CYCLE, which, 10 * at)
    steps.close()
    assert len(notebook.steps) == count


def test_pending_batches_are_limited_while_no_cycle_is_known(notebook):
    """If the optimizers never repeat in a fixed order, the batches do not fill the job's memory."""
    steps = Steps(notebook)
    steps.optimizer_made()
    steps.optimizer_made()
    for at in range(10 * PENDING):
        steps.batch_began(20 * at)
        steps.turn_ended(StepSource.OPTIMIZER_CYCLE, f"{at.bit_count()}", 20 * at + 10)
    assert not notebook.steps, "no cycle was found"
    assert max(len(track.pending) for track in steps._tracks.values()) <= PENDING


def test_cells_that_train_in_turn_are_one_step(notebook):
    steps = Steps(notebook)
    steps.optimizer_made()
    steps.optimizer_made()
    steps.began(0)
    for at in range(0, 60, 20):
        steps.turn_ended(StepSource.TRAIN_CELL, "discriminator", at + 10)
        steps.turn_ended(StepSource.TRAIN_CELL, "generator", at + 20)
    assert intervals(notebook) == [(0, 20), (20, 40), (40, 60)]


def test_an_optimizer_that_is_gone_is_not_waited_for(notebook):
    class Optimizer:
        pass

    steps = Steps(notebook)
    first, second = Optimizer(), Optimizer()
    steps.optimizer_made(first)
    steps.optimizer_made(second)
    del first
    steps.began(0)
    steps.turn_ended(StepSource.OPTIMIZER_CYCLE, "second", 10)
    assert intervals(notebook) == [(0, 10)]


def test_after_a_job_drops_one_of_two_optimizers_each_call_of_the_other_is_a_step(notebook):
    class Optimizer:
        pass

    def update(optimizer, at):
        steps.turn_ended(StepSource.OPTIMIZER_CYCLE, id(optimizer), at, optimizer)

    steps = Steps(notebook)
    generator, discriminator = Optimizer(), Optimizer()
    steps.optimizer_made(generator)
    steps.optimizer_made(discriminator)
    steps.began(0)
    for at in range(10, 90, 20):
        update(discriminator, at)
        update(generator, at + 10)
    del discriminator
    for at in range(90, 130, 10):
        update(generator, at)
    # the first step after the drop still has two calls
    assert intervals(notebook) == [(0, 20), (20, 40), (40, 60), (60, 80), (80, 100), (100, 110), (110, 120)]


def test_after_a_job_stops_calling_one_of_two_optimizers_each_call_of_the_other_is_soon_a_step(notebook):
    steps = Steps(notebook)
    steps.optimizer_made()
    steps.optimizer_made()
    steps.began(0)
    end = update(steps, ["discriminator", "generator"] * 4, 0)
    late = end + INCOMPLETE * 20
    end = update(steps, ["generator"] * (INCOMPLETE * 2 + 4), end)
    assert intervals(notebook)[-5:] == [(late - 20, late), *((at, at + 10) for at in range(late, late + 40, 10))]
    # both are called again
    update(steps, ["discriminator", "generator"] * 10, end)
    assert intervals(notebook)[-10:] == [(at, at + 20) for at in range(late + 40, late + 240, 20)]


def test_optimizers_that_take_turns_at_random_have_a_step_for_every_two_calls(notebook):
    dice = random.Random(0)
    steps = Steps(notebook)
    steps.optimizer_made()
    steps.optimizer_made()
    steps.began(0)
    calls = ["discriminator", "generator"] * 20 + ["generator"] * 40
    while len(calls) < 4000:
        calls += ["discriminator"] + ["generator"] * dice.randint(1, 40)
    update(steps, calls, 0)
    assert {end - start for start, end in intervals(notebook)[-1900:]} == {20}


def test_after_one_of_three_optimizers_is_no_longer_called_the_other_two_are_a_step(notebook):
    steps = Steps(notebook)
    for _ in range(3):
        steps.optimizer_made()
    steps.began(0)
    update(steps, "abc" * 6 + "ab" * 40, 0)
    lengths = [end - start for start, end in intervals(notebook)]
    assert lengths[:6] == [30] * 6 and set(lengths[6:-20]) <= {20, 30} and lengths[-20:] == [20] * 20


def test_an_optimizer_that_is_made_anew_at_an_address_in_use_before_leaves_the_cycle_as_it_is():
    """The job drops an inner optimizer when the next one exists, so the two have two addresses in turn."""
    turns, track = Turns(), Track()
    track.start = 0
    for at, which in enumerate([1, 0, 2, 0] * 2, 1):
        length = turns.add(which, at, track, known=2)
    turns.settle(length, track)
    for which, gone in [(1, {2}), (0, set()), (2, {1}), (0, set())] * 100:
        turns.begin_anew(which)
        turns.call(which, gone)
        assert turns.length == 4


def elsewhere(call, *args):
    """Call a function on a new thread, and wait for the thread's end."""
    thread = threading.Thread(target=call, args=args)
    thread.start()
    thread.join()


def trained(steps, at, which="sgd"):
    """Report a forward pass and an update that together take 10 ns."""
    steps.began(at, forward=True)
    steps.call_began(at)
    steps.call_ended("net", at + 4)
    steps.began(at + 5)
    steps.turn_ended(StepSource.OPTIMIZER_CYCLE, which, at + 10)


@pytest.mark.parametrize("ahead", [1, 3 * PENDING])
def test_a_thread_that_trains_replaces_one_that_takes_batches_ahead(notebook, ahead):
    """The training thread takes over even if the other thread's batches had become steps."""
    steps = Steps(notebook)
    steps.optimizer_made()
    taken, go_on = threading.Event(), threading.Event()

    def take():
        for at in range(0, 2 * ahead, 2):
            steps.batch_began(at)
        taken.set()
        go_on.wait()
        steps.batch_began(5000)
        steps.batches_ended()

    thread = threading.Thread(target=take)
    thread.start()
    taken.wait()
    for at in range(1000, 1060, 20):
        trained(steps, at)
    go_on.set()
    thread.join()
    trained(steps, 1060)
    ends = [1010, 1030, 1050, 1070]
    assert of(notebook, StepSource.OPTIMIZER_CYCLE) == list(zip(range(4), [1000, *ends], ends, strict=False))
    assert steps.number == 4


def test_a_thread_that_called_a_network_once_is_replaced(notebook):
    steps = Steps(notebook)
    elsewhere(lambda: (steps.call_began(1), steps.call_ended("net", 2)))
    for at in range(10, 50, 20):
        trained(steps, at)
    assert intervals(notebook) == [(10, 20), (20, 40)]


def test_a_batch_taken_while_the_training_thread_takes_over_moves_no_begin(notebook, monkeypatch):
    """The thread before has passed its check just before the other thread replaces it."""
    steps = Steps(notebook)
    elsewhere(steps.batch_began, 1)
    began = Listener.began

    def interrupted(listener):
        steps._tracks.open(15)
        return began(listener)

    monkeypatch.setattr(Listener, "began", interrupted)
    trained(steps, 10)
    steps._tracks.open(25)
    trained(steps, 30)
    assert intervals(notebook) == [(10, 20), (20, 40)]


def test_a_thread_that_trains_is_replaced_by_another_one_only_when_it_has_ended(notebook):
    steps = Steps(notebook)
    steps.optimizer_made()
    ended, go_on = threading.Event(), threading.Event()

    def first():
        trained(steps, 0)
        ended.set()
        go_on.wait()

    thread = threading.Thread(target=first)
    thread.start()
    ended.wait()
    trained(steps, 100)
    assert intervals(notebook) == [(0, 10)]
    go_on.set()
    thread.join()
    trained(steps, 200)
    trained(steps, 300)
    assert [end for _, end in intervals(notebook)] == [10, 210, 310]


@pytest.mark.parametrize("count", [40, 200])
def test_an_optimizer_for_each_parameter(notebook, count):
    """All optimizers step in each backward pass, and this is one step of the job."""
    steps = Steps(notebook)
    for _ in range(count):
        steps.optimizer_made()
    at = 0
    for _ in range(5):
        steps.began(at)
        for which in range(count):
            at += 1
            steps.turn_ended(StepSource.OPTIMIZER_CYCLE, which, at)
    assert intervals(notebook) == [(count * step, count * (step + 1)) for step in range(5)]


class Optimizer:
    """An optimizer whose constructor was not reported: it is a copy, or it is older than the hooks."""


def test_optimizers_that_were_never_made_are_counted_when_they_step(notebook):
    steps = Steps(notebook)
    first, second = Optimizer(), Optimizer()
    steps.began(0)
    for at in range(0, 100, 10):
        for which, optimizer in enumerate((first, second)):
            steps.turn_ended(StepSource.OPTIMIZER_CYCLE, which, at + 5 * which + 5, optimizer)
    # the first optimizer's first call was a step, because no other optimizer was known
    assert intervals(notebook) == [(0, 5), *((at - 5, at + 5) for at in range(10, 100, 10))]


def test_an_optimizer_that_was_made_and_steps_counts_once(notebook):
    steps = Steps(notebook)
    optimizer = Optimizer()
    steps.optimizer_made(optimizer)
    steps.began(0)
    for at in range(10, 40, 10):
        steps.turn_ended(StepSource.OPTIMIZER_CYCLE, "sgd", at, optimizer)
    assert steps._optimizers.count == 1 and len(notebook.steps) == 3


def test_a_step_that_takes_all_batches_of_a_loader_begins_where_the_last_one_ended(notebook):
    steps = Steps(notebook)
    steps.optimizer_made()
    for at in range(0, 300, 100):
        for batch in range(at, at + 40, 10):
            steps.batch_began(batch)
            steps.began(batch + 5, forward=True)
        steps.batch_began(at + 40)
        steps.batches_ended()
        steps.began(at + 50)  # the backward pass
        steps.turn_ended(StepSource.OPTIMIZER_CYCLE, "sgd", at + 60)
    assert intervals(notebook) == [(0, 60), (60, 160), (160, 260)]


@pytest.mark.parametrize("left", ["nothing", "batches", "forward"])
def test_a_step_after_the_end_of_a_loader_begins_with_its_own_work(notebook, left):
    """This also holds if batches at the end of an epoch computed gradients that no update used."""
    steps = Steps(notebook)
    steps.optimizer_made()
    trained(steps, 0)
    if left != "nothing":
        steps.batch_began(20)
        steps.began(25, forward=True)
    steps.batch_began(30)
    steps.batches_ended()
    if left == "batches":
        steps.batch_began(1000)
    trained(steps, 1000)
    assert intervals(notebook) == [(0, 10), (1000, 1010)]


def test_a_cell_that_updates_in_some_calls_only_is_a_step_until_its_update(notebook):
    """A cell that sums up the gradients of four calls looks like one that trains with each call, until it updates."""
    steps = Steps(notebook)
    steps.optimizer_made()
    for call in range(12):
        steps.began(10 * call)
        if call % 4 == 3:
            steps.turn_ended(StepSource.OPTIMIZER_CYCLE, "sgd", 10 * call + 8, inside=True)
        steps.turn_ended(StepSource.TRAIN_CELL, "cell", 10 * call + 9)
    steps.close()
    rows = [(source, number, *when, 1) for number, *when, source, _ in notebook.steps]
    table = pl.DataFrame(rows, ["category", "arg", "start_ns", "end_ns", "thread"], orient="row")
    found = guesses.settled(table).select("arg", "start_ns", "end_ns").rows()
    assert found == [(0, 0, 38), (1, 38, 78), (2, 78, 118)]


def test_an_optimizer_that_follows_cells_continues_their_steps(notebook):
    steps = Steps(notebook)
    steps.optimizer_made()
    for call in range(3):
        steps.began(10 * call)
        steps.turn_ended(StepSource.TRAIN_CELL, "cell", 10 * call + 9)
    for call in range(3, 6):
        steps.began(10 * call)
        steps.turn_ended(StepSource.OPTIMIZER_CYCLE, "sgd", 10 * call + 9)
    assert [step[:3] for step in notebook.steps] == [(n, max(10 * n - 1, 0), 10 * n + 9) for n in range(6)]


def test_lengths_of_steps_are_kept_without_the_extension():
    program = (
        "import sys; sys.modules['ms_profiler.job.recorder.native'] = None\n"
        "from types import SimpleNamespace\n"
        "from ms_profiler.job.steps import Steps\n"
        "from ms_profiler.store.format import StepSource\n"
        "steps = Steps(SimpleNamespace(record=lambda *_: True, now=lambda: 0, intern=len))\n"
        "steps.loop_began(); loop = StepSource.FRAMEWORK_LOOP\n"
        "for number in range(600): steps.batch_began(number * number); steps.ended(loop, number * number + 10)\n"
        "print(steps.count, len(steps.lengths(1 << 40)), steps.lengths(2), steps.lengths(0))"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out == "600 512 [1195, 1197] []\n"
