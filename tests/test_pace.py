"""Checks happen as often as their cost allows."""

import pytest
from ms_profiler.job.pace import Pace

PAUSE = 100


@pytest.mark.parametrize(("step", "expected"), [(1, 128), (10, 16), (60, 2), (100, 1), (1000, 1)])
def test_samples_are_a_pause_apart_for_every_length_of_step(step, expected):
    pace, now = Pace(PAUSE), 1
    for _ in range(20):
        pace.looked(now)
        now += pace.steps * step
    assert pace.steps == expected
    assert PAUSE <= pace.steps * step <= max(2 * PAUSE, step)


def test_longer_steps_are_sampled_more_often_again():
    pace, now = Pace(PAUSE), 1
    for step in [1] * 20 + [50] * 20:
        pace.looked(now)
        now += pace.steps * step
    assert pace.steps == 4


def test_there_are_bounds():
    short, long = Pace(PAUSE, least=16, most=64), Pace(PAUSE, least=16, most=64)
    for number in range(1, 20):
        short.looked(number)
        long.looked(number * 1000)
    assert (short.steps, long.steps) == (64, 16)


def test_an_early_call_may_leave_the_pace():
    pace = Pace(PAUSE, slack=4)
    assert pace.adapt(7)  # the first call is never too early
    pace.last = 7
    assert not pace.adapt(50) and not pace.adapt(106) and pace.steps == 4
    assert pace.adapt(107) and pace.adapt(407) and pace.steps == 4
    assert pace.adapt(408) and pace.steps == 2
