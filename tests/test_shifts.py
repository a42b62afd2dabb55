"""From which step on steps take longer is found, and whose time does; of made-up steps."""

import random

import polars as pl
import pytest
from ms_profiler.analysis.metrics import shifts
from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import StepSource

MS = 1_000_000


def made(lengths, recorded=lambda number: True):
    """Return steps of these lengths."""
    rows, at = [], 0
    for number, length in enumerate(lengths):
        known = recorded(number)
        rows.append((1, 1, number, at, at + length, 1, known, "all" if known else "coarse", 0))
        at += length
    table = pl.DataFrame(rows, schema=tables.STEPS, orient="row")
    return Steps(1, 1, StepSource.SCRIPT, table.with_columns(duration_ns=pl.col("end_ns") - pl.col("start_ns")))


def noisy(count, change, factor=1.2, seed=3):
    """Return lengths that change, with noise and some far longer steps."""
    chance = random.Random(seed)
    return [
        int(MS * (factor if number >= change else 1) * chance.gauss(1, 0.05)) * (1 + 8 * (chance.random() < 0.01))
        for number in range(count)
    ]


@pytest.mark.parametrize("factor", [1.2, 0.8])
@pytest.mark.parametrize("change", [15_000, 700])
def test_a_change_is_found_with_its_module(change, factor):
    steps = made(noisy(20_000, change, factor), lambda number: number % 100 == 50)
    sums = [
        (step, owner, 1, 1, int(0.1 * MS * (1 + (factor - 1) * 10 * (owner == "net.3" and step >= change))))
        for step in range(50, 20_000, 100)
        for owner in ("net.2", "net.3", None)
    ]
    names = ("step", "owner", "part", "bound", "self_ns")
    table = pl.DataFrame(sums, schema=names, orient="row").cast({"step": pl.UInt32})
    found = shifts.shift(steps, Ownership("host", 1, 1, table, table, table, 1))
    assert found["step"] == pytest.approx(change, abs=5)
    assert found["after_ms"] / found["before_ms"] == pytest.approx(factor, abs=0.02)
    (module,) = found["modules"]
    assert module["module"] == "net.3"
    assert module["after_ms"] - module["before_ms"] == pytest.approx(factor - 1, abs=1e-5)


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_no_change(seed):
    assert shifts.shift(made(noisy(3_000, 0, 1.0, seed)), None) is None


def test_few_steps_tell_nothing():
    assert shifts.shift(made([MS] * 60 + [2 * MS] * 60), None) is None
    assert shifts.shift(made([]), None) is None
