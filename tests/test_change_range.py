"""The stated range of a change contains its first step, whatever the noise is, and is one step where there is none."""

import math
import random

import pytest
from ms_profiler.analysis.metrics import change_range, lasting, shifts
from ms_profiler.analysis.report import changes
from test_shifts import MS, NO_SPANS, made

COUNT = 1_200


def plain(chance):
    return [chance.gauss(0, 1) for _ in range(COUNT)]


def heavy(chance):
    """Return values of Student's t distribution with three degrees of freedom."""
    return [chance.gauss(0, 1) / math.sqrt(chance.gammavariate(1.5, 2) / 3) for _ in range(COUNT)]


def disturbed(chance):
    """Return noise with some periods of up to 20 steps in which another program runs."""
    values = plain(chance)
    for _ in range(COUNT // 150):
        first, more = chance.randrange(COUNT), chance.uniform(2, 20)
        for place in range(first, min(first + chance.randrange(1, 20), COUNT)):
            values[place] += more
    return values


def drifting(chance):
    """Return noise around a speed that changes slowly."""
    speed, values = 0.0, []
    for value in plain(chance):
        speed = 0.98 * speed + chance.gauss(0, 0.25)
        values.append(value + speed)
    return values


@pytest.mark.parametrize(
    ("noise", "size"), [(plain, 1), (plain, 2), (plain, 6), (heavy, 2), (heavy, 6), (disturbed, 3), (drifting, 6)]
)
def test_the_range_contains_the_first_step_in_95_percent_of_the_runs(noise, size):
    chance, inside, runs = random.Random(11), 0, 60
    for _ in range(runs):
        first = chance.randrange(500, 700)
        values = [value + size * (place >= first) for place, value in enumerate(noise(chance))]
        found = change_range.find(values, first + chance.randrange(-15, 16), (1, COUNT - 1))
        inside += found.first <= first <= found.last
        assert found.first <= found.at <= found.last
    assert inside >= 0.95 * runs


@pytest.mark.parametrize("about", [585, 600, 615])
def test_clear_values_have_an_exact_first_step(about):
    chance = random.Random(5)
    values = [chance.gauss(0, 1) + 12 * (place >= 600) for place in range(COUNT)]
    assert change_range.find(values, about, (1, COUNT - 1)) == (600, 600, 600)


def test_the_range_lies_within_known_bounds():
    values = drifting(random.Random(1))
    for bounds in ((590, 620), (600, 600), (610, 700)):
        found = change_range.find(values, 600, bounds)
        assert bounds[0] <= found.first <= found.at <= found.last <= bounds[1]


@pytest.mark.parametrize(("factor", "exact"), [(1.2, False), (1.6, True)])
def test_a_line_says_the_range_only_if_the_lengths_do_not_tell_the_step(factor, exact):
    chance = random.Random(4)
    lengths = [int(MS * (factor if number >= 1_450 else 1) * chance.gauss(1, 0.06)) for number in range(3_000)]
    found = shifts.shift(made(lengths), None, NO_SPANS)
    assert found["earliest"] <= 1_450 <= found["latest"]
    (line,) = changes.lines({"shift": found})
    hedged = f"From about step {found['step']} (between {found['earliest']} and {found['latest']}) on: "
    assert line.startswith("From step 1450 on: " if exact else hedged)
    assert exact == (found["earliest"] == found["latest"])


def flipping(chance, count):
    """Return values of a machine that is half as fast for some hundred steps, again and again."""
    values, speed = [], 0.0
    while len(values) < count:
        values += [speed + chance.gauss(0, 0.02) for _ in range(chance.randrange(100, 400))]
        speed = 0.5 - speed
    return values[:count]


def lengths(noise, change=0.12, first=650):
    """Return the steps of a job whose steps become longer; `noise` are logarithms."""
    return made([round(MS * math.exp(value + change * (place >= first))) for place, value in enumerate(noise)])


def test_lengths_tell_the_place_of_a_change_only_on_a_machine_of_constant_speed():
    chance = random.Random(3)
    assert change_range.is_clear(lengths([chance.gauss(0, 0.05) for _ in range(COUNT)]), (500, 800))
    assert not change_range.is_clear(lengths(flipping(chance, COUNT)), (500, 800))
    assert not change_range.is_clear(lengths([0.0] * COUNT), (100, 800)), "too few steps on one side"


@pytest.mark.parametrize(("steps_ms", "narrow"), [(0.11, True), (0.4, False)])
def test_lengths_that_a_module_does_not_explain_do_not_tell_the_place_of_its_change(monkeypatch, steps_ms, narrow):
    """The speed of the machine may have changed at another step of the range."""
    chance = random.Random(3)
    steps = lengths([chance.gauss(0, 0.01) for _ in range(COUNT)])
    module = {"module": "Net", "before_ms": 0.1, "after_ms": 0.2}
    shift = {"step": 650, "earliest": 648, "latest": 652, "before_ms": 1.0, "after_ms": 1.0 + steps_ms}
    work = {"after_step": 499, "step": 800, "earliest": 500, "latest": 800, "counted": "operators", "before_ms": None}
    work["modules"] = [module | {"count_before": 3, "count_after": 6}]
    monkeypatch.setattr(lasting.shifts, "shift", lambda *_: shift | {"modules": [module]})
    monkeypatch.setattr(lasting.work_changes, "shift", lambda *_: work)
    found = lasting.summary(steps, None, NO_SPANS)["shift"]
    assert (found["earliest"], found["latest"]) == ((650, 650) if narrow else (500, 800))
