from types import SimpleNamespace

import pytest
from ms_profiler.job.frameworks.mindspore import sampling_plan
from ms_profiler.job.frameworks.mindspore.sampling_plan import BATCHES, PAUSE, WINDOW, SamplingPlan


@pytest.fixture
def clock(monkeypatch):
    """Return a clock whose time the test sets."""
    now = SimpleNamespace(value=100.0)
    monkeypatch.setattr(sampling_plan.clock, "monotonic", lambda: now.value)
    return now


def test_a_window_is_over_after_its_time_or_its_batches(clock):
    plan = SamplingPlan()
    plan.begin(5)
    assert not plan.over(5 + BATCHES - 1)
    assert plan.over(5 + BATCHES)
    clock.value += WINDOW
    assert plan.over(5)


def test_pauses_grow_with_the_recorded_time(clock):
    plan = SamplingPlan()
    pauses = []
    for _ in range(4):
        for _ in range(2):  # short windows are summed up
            assert not plan.paused
            plan.begin(0)
            clock.value += WINDOW / 2
            plan.end()
        began = clock.value
        while plan.paused:
            clock.value += 0.5
        pauses.append(clock.value - began)
    assert pauses == [PAUSE, 2 * PAUSE, 4 * PAUSE, 8 * PAUSE]


def test_it_looks_about_once_a_second(clock):
    plan = SamplingPlan()
    assert plan.next_look(7) == 8
    clock.value += 2
    assert plan.next_look(207) == 307
    clock.value += 0.001
    assert plan.next_look(10_207) == 10_207 + BATCHES // 10
    plan.restart()
    assert plan.next_look(20_000) == 20_001
