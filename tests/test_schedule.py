import itertools

from ms_profiler.job.schedule import NEVER, Action, Schedule

N, W, R, S = Action.NONE, Action.WARM_UP, Action.RECORD, Action.RECORD_AND_SAVE


def test_sequence_of_the_documents():
    schedule = Schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=2)
    assert [schedule.action(step) for step in range(13)] == [N, N, N, W, R, S, N, W, R, S, N, N, N]


def test_repeat_zero_never_ends():
    schedule = Schedule(active=1, wait=1)
    assert [schedule.records(step) for step in (0, 1, 10_000, 10_001)] == [False, True, False, True]


def test_one_active_step_is_recorded_and_saved():
    assert Schedule(active=1).action(0) == S


def test_absent_option_is_no_schedule():
    assert Schedule.from_option(None) is None
    assert Schedule.from_option({"active": 3, "skip_first": 1}) == Schedule(active=3, skip_first=1)


def test_idle_steps_end_before_the_one_ahead_of_a_recorded_step():
    for active, wait, warmup, repeat, first in itertools.product((1, 2), (0, 1, 2, 5, 9), (0, 1, 3), (0, 1, 2), (0, 4)):
        schedule = Schedule(active=active, wait=wait, warmup=warmup, repeat=repeat, skip_first=first)
        records = [schedule.records(step) for step in range(100)]
        for step in range(50):
            ahead = next((later for later in range(step, 100) if records[later]), None)
            idle = NEVER if ahead is None else ahead - 1 - step
            assert schedule.idle(step) == (0 if any(records[max(step - 2, 0) : step + 1]) else idle), (schedule, step)
