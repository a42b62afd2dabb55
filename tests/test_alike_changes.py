"""Where the machine changes its speed, the line says that everything changed alike, and names no module."""

import random

import polars as pl
import pytest
from ms_profiler.analysis.metrics import alike_changes, lasting
from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.report import changes
from ms_profiler.store.format import Category
from test_shifts import MS, made

#: number of steps, and the first one after the change
COUNT, CHANGE = 600, 300
#: the parts of a step, ms: (owner, part of the step) -> time. The owner None is code outside of all modules
USUAL = {
    **{(f"net.{layer}", part): time for layer in range(4) for part, time in ((1, 0.8), (2, 1.6))},
    ("net.in", 1): 0.2,
    ("net.out", 1): 0.1,
    ("SGD", 3): 0.5,
    (None, 0): 0.4,
}
CATEGORIES = {1: Category.FORWARD, 2: Category.BACKWARD, 3: Category.OPTIMIZER}
#: a slower machine slows work down that computes more than work that uses memory
UNEVEN = {"net.0": 1.3, "net.1": 1.38, "net.2": 1.42, "net.3": 1.4, "net.in": 1.21, "net.out": 1.43, "SGD": 1.19}


def changed(factor, wait=3.0, usual=USUAL, every=1, seed=1, gradual=False, batches=1.0):
    """Return a run in which the times of all parts change, as arguments of `lasting.summary`.

    Args:
        factor: function of an owner: the factor by which its time changes at step `CHANGE`.
        wait: milliseconds that each step waits for data.
        usual: the parts of a step, in order.
        every: each `every`-th step is sampled.
        seed: tells the noise.
        gradual: whether the times change little by little.
        batches: the factor by which the wait for data changes at step `CHANGE`, because the loop makes its batches.
    """
    chance, lengths, rows, owned = random.Random(seed), [], [], []
    at = 0
    for number in range(COUNT):
        speed, begin = chance.gauss(1, 0.03), at
        parts = [("data", Category.DATA, 0, wait * (batches if number >= CHANGE else 1) * chance.gauss(1, 0.03))]
        for (owner, part), time in usual.items():
            late = number / COUNT if gradual else number >= CHANGE
            took = time * (1 + (factor(owner) - 1) * late) * speed * chance.gauss(1, 0.03)
            parts.append((owner, CATEGORIES.get(part), part, took))
        for owner, category, part, time in parts:
            took = int(MS * time)
            if category is not None:
                rows.append({"process": 1, "thread": 1, "category": int(category), "start_ns": at, "end_ns": at + took})
            if part and number % every == 0:
                owned.append((number, owner, part, 1, took))
            at += took
        lengths.append(at - begin)
    table = pl.DataFrame(owned, schema=("step", "owner", "part", "bound", "self_ns"), orient="row")
    table = table.cast({"step": pl.UInt32})
    steps = made(lengths, lambda number: number % every == 0)
    found = Ownership("host", 1, 1, table, table, table.clear(), 1)
    spans = pl.DataFrame(rows, schema_overrides=tables.SPANS)
    return steps, found, spans


def told(*args, **options):
    """Return the lasting change of a run of `changed`, and its line."""
    found = lasting.summary(*changed(*args, **options))
    (line,) = changes.lines(found)
    return found["shift"], line


@pytest.mark.parametrize("every", [1, 4])
@pytest.mark.parametrize("wait", [0.0, 3.0])
@pytest.mark.parametrize("power", [1, 2, -1])
@pytest.mark.parametrize("seed", range(3))
def test_no_module_is_named_where_everything_became_slower_alike(power, wait, every, seed):
    """The times of the modules grow by 1.19 to 1.43, or by powers of these factors. Waits for data do not grow."""
    shift, line = told(lambda owner: UNEVEN.get(owner, 1.28) ** power, wait, every=every, seed=seed)
    assert shift["step"] == pytest.approx(CHANGE, abs=8)
    assert shift["alike"] == pytest.approx(1.38**power, rel=0.07) and shift["modules"] == []
    way = "faster" if power < 0 else "slower"
    factor = f"everything alike, by a factor of {shift['alike']:.2f}"
    assert line.endswith(f"; {factor}: the machine became {way}, or all work did")


@pytest.mark.parametrize("sleep", [0.0, 4.0])
def test_sleep_outside_of_modules_hides_no_common_factor(sleep):
    usual = USUAL | {(None, 0): 0.4 + sleep}
    shift, _ = told(lambda owner: 1 if owner is None and sleep else 1.35, usual=usual)
    assert shift["alike"] == pytest.approx(1.35, rel=0.05) and shift["modules"] == []


@pytest.mark.parametrize("factor", [1.7, 0.6])
def test_batches_that_the_loop_makes_are_slower_on_a_slower_machine_too(factor):
    shift, _ = told(lambda _: factor, 14.0, batches=factor)
    assert shift["alike"] == pytest.approx(factor, rel=0.05) and shift["modules"] == []


@pytest.mark.parametrize("every", [1, 4])
@pytest.mark.parametrize("speed", [1.0, 1.05, 1.1, 1.15])
@pytest.mark.parametrize("seed", range(3))
def test_a_module_that_takes_twice_as_long_is_named_alone_on_a_slower_machine_too(speed, every, seed):
    shift, line = told(lambda owner: speed * (1 + (owner == "net.2")), every=every, seed=seed)
    (module,) = shift["modules"]
    assert module["module"] == "net.2"
    assert module["after_ms"] / module["before_ms"] == pytest.approx(2 * speed, rel=0.07)
    if speed == 1:
        assert shift["alike"] is None and "alike" not in line
    if speed >= 1.1:
        times = f"{module['before_ms']:.3f} ms -> {module['after_ms']:.3f} ms"
        alike = f"all else alike, by a factor of {shift['alike']:.2f}: the machine became slower, or all work did"
        assert line.endswith(f"; net.2 {times}; {alike}")
        assert shift["alike"] == pytest.approx(speed, abs=0.04)


@pytest.mark.parametrize("slower", [("net.0", "net.1"), ("net.0", "net.1", "net.2")])
def test_some_modules_are_not_everything(slower):
    """The other modules have a quarter of the time or more."""
    shift, _ = told(lambda owner: 1.5 if owner in slower else 1)
    assert shift["alike"] is None and {each["module"] for each in shift["modules"]} == set(slower)


def test_code_outside_of_modules_that_grows_most_is_no_common_factor():
    shift, line = told(lambda owner: 6 if owner is None else 1.1, usual=USUAL | {(None, 0): 2.0})
    assert shift["alike"] is None and shift["modules"] == []
    assert "alike" not in line


def test_more_operators_are_work_and_no_speed():
    steps, found, spans = changed(lambda owner: 1.35)
    later = pl.Series([number >= CHANGE for number in range(COUNT)])
    module = {"module": "net.0", "before_ms": 2.4, "after_ms": 3.24, "count_before": 5, "count_after": 7}
    counted = {"modules": [module]}
    lengths = (13.9, 17.7)
    assert alike_changes.told(counted, lengths, later, steps, found, spans) == counted | {"alike": None}
    known = alike_changes.told({"modules": []}, lengths, later, steps, found, spans)
    assert known["alike"] == pytest.approx(1.35, rel=0.05)
