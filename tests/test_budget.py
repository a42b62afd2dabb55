"""The budget counts what recording takes, and begins to sample steps when it is too much."""

from types import SimpleNamespace

import pytest
from ms_profiler.job.budget import INTERVAL, Budget
from ms_profiler.job.schedule import Schedule

MS = 1_000_000


@pytest.fixture
def steps():
    return SimpleNamespace(
        count=0,
        recorded=0,
        schedule=None,
        idle=0,
        lone=0,
        last_ns=MS,
        helper_ns=0,
        marks=SimpleNamespace(sampled=True),
        lengths=lambda count: [MS] * count,
        sample=lambda sampled, stretch: None,
    )


@pytest.fixture
def budget(monkeypatch, steps):
    """Return a budget of 5 %, of a job whose steps take 1 ms and whose kernels take 0.2 ms of each."""
    monkeypatch.setattr(Budget, "_measure", lambda self: self._cost.update(span_ns=300.0, idle_ns=50.0))
    recorder = SimpleNamespace(
        room=lambda: 1 << 40,
        now=lambda: (steps.count + 1) * MS,
        stats=lambda: SimpleNamespace(records=0, helper_ns=int(steps.count * steps.helper_ns)),
        hook_times=lambda since: (0, [], 0),
        fine=lambda on: None,
    )
    rest = SimpleNamespace(resting=False, begin=lambda count: None, end=lambda count=0: None)
    host = SimpleNamespace(
        recorder=recorder, steps=steps, limit=1 << 40, sources=SimpleNamespace(rest=rest), save=lambda: None
    )
    made = Budget(host)
    made.open(0.05)
    made.expected["kernels"] = 0.2 * MS
    return made


@pytest.mark.parametrize(
    ("schedule", "samples"), [(None, True), (Schedule(active=1, wait=99), False), (Schedule(active=50, wait=50), True)]
)
def test_a_recorder_of_kernels_costs_nothing_in_steps_that_the_schedule_leaves_out(budget, steps, schedule, samples):
    steps.schedule = schedule
    for number in range(5000):
        steps.count += 1
        steps.recorded += schedule is not None and schedule.records(number)
        budget.look(steps.count)
    assert (budget._bursts is not None) is samples
    assert budget.next_look > INTERVAL, "the budget has looked"


@pytest.mark.parametrize(("helper", "samples"), [(0.01, False), (0.04, True)])
def test_the_recorders_helper_thread_is_a_part_of_the_cost(budget, steps, helper, samples):
    budget.expected["kernels"] = 0.03 * MS
    steps.helper_ns = helper * MS
    for _ in range(5000):
        steps.count += 1
        budget.look(steps.count)
    assert (budget._bursts is not None) is samples
    assert budget.cost["helper"] == pytest.approx(helper, rel=0.01)


def test_few_steps_of_a_schedule_are_recorded_whatever_they_cost(budget, steps):
    steps.schedule = Schedule(active=3, wait=97, repeat=5)
    budget.spend(100 * MS)
    for number in range(600):
        steps.count += 1
        steps.recorded += steps.schedule.records(number)
        budget.look(steps.count)
    assert budget._bursts is None
