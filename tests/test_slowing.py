"""Steps that become longer little by little are reported as such, with the module that grows, and not as a change."""

import random

import polars as pl
import pytest
from ms_profiler.analysis.metrics import shifts, slowing
from ms_profiler.analysis.metrics.ownership import Ownership
from test_shifts import MS, NO_SPANS, made


def growing(count, factor, seed, every=1):
    """Return steps that become longer by `factor` in all, because `net.1` grows; each `every`-th step is sampled.

    The processor's speed changes from step to step, and in one of 20 steps the job loses its processor.
    """
    chance, lengths, rows = random.Random(seed), [], []
    for number in range(count):
        grown = (factor - 1) * number / count
        speed = chance.uniform(1, 1.2) * (3 if chance.random() < 0.05 else 1)
        lengths.append(int(MS * (1 + grown) * speed))
        if number % every == every // 2:
            times = {"net.0": 0.3, "net.1": 0.2 + grown, "net.2": 0.3}
            rows += [(number, owner, 1, 1, int(MS * time * speed)) for owner, time in times.items()]
    steps = made(lengths, lambda number: number % every == every // 2)
    names = ("step", "owner", "part", "bound", "self_ns")
    table = pl.DataFrame(rows, schema=names, orient="row").cast({"step": pl.UInt32})
    return steps, Ownership("host", 1, 1, table, table, table, 1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("every", [1, 25])
@pytest.mark.parametrize("factor", [1.5, 8])
@pytest.mark.parametrize("count", [800, 6_000])
def test_steps_that_become_longer_little_by_little_do_not_change_at_once(count, factor, every, seed):
    steps, found = growing(count, factor, seed, every)
    assert shifts.shift(steps, found, NO_SPANS) is None
    slow = slowing.slowing(steps, found)
    assert slow["to_ms"] / slow["from_ms"] == pytest.approx(factor, rel=0.2)
    assert [each["module"] for each in slow["modules"]] == ["net.1"]


@pytest.mark.parametrize("seed", range(5))
def test_steps_that_become_longer_at_once_or_not_at_all_do_not_grow(seed):
    chance = random.Random(seed)
    for change in (100, 400, 700, 900):
        lengths = [int(MS * chance.uniform(1, 1.2) * (3 if number >= change else 1)) for number in range(900)]
        assert slowing.slowing(made(lengths), None) is None
    assert slowing.slowing(made([MS * number for number in range(1, 100)]), None) is None, "too few steps"


def test_a_gap_between_sampled_steps_does_not_make_growth_a_change():
    """Groups of sampled steps become rare, so that the last ones are far from the others."""
    _, found = growing(800, 6, 1)
    steps = made(
        [int(MS * (1 + 5 * number / 800)) for number in range(800)],
        lambda number: (number < 240 and number % 4 < 2) or (number >= 640 and number % 4 < 2),
    )
    known = steps.table.filter("recorded")["number"]
    table = found.by_step.filter(pl.col("step").is_in(known.implode()))
    rows = table.with_columns(part=pl.lit(1), bound=pl.lit(1)).select("step", "owner", "part", "bound", "self_ns")
    assert shifts.shift(steps, Ownership("host", 1, 1, rows, rows, rows, 1), NO_SPANS) is None
