"""A period of slow steps that ends again is stated; noise, a warm-up, a lasting change and evaluations are none."""

import random

import polars as pl
import pytest
from ms_profiler.analysis.metrics import slow_period
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.report import changes
from ms_profiler.store.format import Category
from test_shifts import MS, NO_SPANS, flipping, made, noisy

COUNT = 5_000


def lengths(factor, seed=1):
    """Return noisy lengths of steps; `factor` returns how many times as long as usual a step takes."""
    chance = random.Random(seed)
    return [
        int(MS * factor(number) * chance.gauss(1, 0.1) * (8 if chance.random() < 0.01 else 1))
        for number in range(COUNT)
    ]


def waiting(steps):
    """Return a span in each step: the part of its length beyond 1 ms is waiting for data."""
    rows = [
        {"process": 1, "thread": 1, "category": int(Category.DATA), "start_ns": start, "end_ns": end - MS // 2}
        for start, end in steps.table.select("start_ns", "end_ns").iter_rows()
        if end - start > MS
    ]
    return pl.DataFrame(rows, schema_overrides=tables.SPANS).select(pl.all())


@pytest.mark.parametrize("factor", [2, 6])
@pytest.mark.parametrize(("first", "last"), [(2_900, 3_199), (100, 299), (4_600, 4_980)])
def test_a_slow_period_is_stated_with_its_first_and_last_step(first, last, factor):
    steps = made(lengths(lambda number: factor if first <= number <= last else 1), lambda number: number % 100 < 8)
    found = slow_period.summary(steps, NO_SPANS)
    assert (found["first"], found["last"]) == (pytest.approx(first, abs=1), pytest.approx(last, abs=1))
    assert found["ms"] / found["others_ms"] == pytest.approx(factor, rel=0.05)
    assert found["phase"] is None
    (line,) = changes.lines({"slow_period": found})
    assert line.startswith(f"Steps {found['first']} to {found['last']} take ")
    assert line.endswith("% of the time of all steps")


def test_the_line_names_the_phase_that_takes_longer():
    steps = made(lengths(lambda number: 5 if 2_900 <= number < 3_200 else 1))
    found = slow_period.summary(steps, waiting(steps))
    assert found["phase"] == "data"
    assert changes.lines({"slow_period": found})[0].endswith("; most of the difference is in waiting for data")


@pytest.mark.parametrize("every", [2, 3, 4])
@pytest.mark.parametrize(("first", "last"), [(2_900, 3_199), (100, 299)])
def test_a_period_in_which_every_few_steps_wait_is_stated_with_how_many_do(first, last, every):
    """Workers of a data loader end their batches at about the same time, so one of them is waited for."""
    slow = lambda number: 20 if first <= number <= last and number % every == 0 else 1  # noqa: E731
    steps = made(lengths(slow), lambda number: number % 100 < 8)
    found = slow_period.summary(steps, waiting(steps))
    assert (found["first"], found["last"]) == (pytest.approx(first, abs=8), pytest.approx(last, abs=8))
    assert found["long"] == pytest.approx((last - first + 1) / every, rel=0.1)
    assert found["ms"] / found["others_ms"] == pytest.approx(20, rel=0.05)
    assert found["phase"] == "data"
    (line,) = changes.lines({"slow_period": found})
    assert line.startswith(f"{found['long']} of the steps {found['first']} to {found['last']} take ")


def test_a_period_in_which_every_few_steps_compute_for_longer_is_not_stated():
    """Other programs may have used the processor."""
    steps = made(lengths(lambda number: 20 if 2_900 <= number < 3_200 and number % 3 == 0 else 1))
    assert slow_period.period(steps.table).long is not None
    assert slow_period.summary(steps, NO_SPANS) is None


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_a_period_on_a_busy_machine_is_stated_if_it_is_clear(every, seed):
    """Three of ten steps take up to three times as long all the time."""
    chance = random.Random(seed)
    busy = [1 + 2 * chance.random() * (chance.random() < 0.3) for _ in range(COUNT)]
    steps = made(lengths(lambda number: busy[number] * (15 if 2_000 <= number < 2_400 and number % every == 0 else 1)))
    found = slow_period.summary(steps, waiting(steps))
    assert (found["first"], found["last"]) == (pytest.approx(2_000, abs=8), pytest.approx(2_399, abs=8))


NONE = {
    "noise": lambda number: 1,
    "a lasting change": lambda number: 3 if number >= 3_000 else 1,
    "slow first steps": lambda number: 3 if number < 300 else 1,
    "steps that become longer little by little": lambda number: 1 + 5 * number / COUNT,
    "an evaluation in some steps": lambda number: 20 if number % 50 == 0 else 1,
    "longer steps in every other epoch": lambda number: 4 if number // 500 % 2 else 1,
    "every second step in every other epoch": lambda number: 9 if number // 500 % 2 and number % 2 else 1,
    "every second step": lambda number: 9 if number % 2 else 1,
    "few long steps near each other": lambda number: 90 if number in (2_900, 2_905, 2_911, 2_920, 2_922) else 1,
    "several slow periods": lambda number: 4 if number % 1_000 < 100 else 1,
    "too few steps": lambda number: 30 if 2_900 <= number < 2_910 else 1,
    "a small difference": lambda number: 1.3 if 2_900 <= number < 4_000 else 1,
    "little time": lambda number: 2 if 2_900 <= number < 2_940 else 1,
}


@pytest.mark.parametrize("factor", NONE.values(), ids=list(NONE))
@pytest.mark.parametrize("seed", range(3))
def test_no_slow_period_is_stated_for(factor, seed):
    steps = made(lengths(factor, seed), lambda number: number < 32 or number % 200 < 8)
    assert slow_period.summary(steps, NO_SPANS) is None


def test_records_make_no_slow_period():
    """Sampled steps take twice as long, and many of them follow each other."""
    steps = made(lengths(lambda number: 2 if 1_000 <= number < 1_400 else 1), lambda number: 1_000 <= number < 1_400)
    assert slow_period.summary(steps, NO_SPANS) is None


@pytest.mark.parametrize("seed", range(4))
def test_sampled_steps_before_a_lasting_change_make_no_slow_period(seed):
    """All of the first 32 steps are sampled; from step 50 on, a smaller network trains."""
    chance = random.Random(seed)
    steps = made(
        [int(MS * (1.3 if number < 50 else 0.5) * chance.gauss(1, 0.05)) for number in range(120)],
        lambda number: number < 32 or 80 <= number < 88,
    )
    assert slow_period.summary(steps, NO_SPANS) is None


@pytest.mark.parametrize("seed", range(4))
def test_a_speed_that_changes_again_and_again_is_no_period(seed):
    assert slow_period.summary(flipping(6_000, 0, 1.0, seed)[0], NO_SPANS) is None


@pytest.mark.parametrize("count", [0, 1, 40, 3_000])
def test_usual_steps_have_no_slow_period(count):
    assert slow_period.summary(made(noisy(count, 0, 1.0)), NO_SPANS) is None
    assert slow_period.summary(made([0] * count), NO_SPANS) is None
