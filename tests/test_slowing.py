"""Steps that become longer little by little are reported as such, with the module that grows, and not as a change."""

import random

import polars as pl
import pytest
from ms_profiler.analysis.metrics import lasting, shifts, slowing
from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.report import changes
from ms_profiler.store.format import Category
from test_alike_changes import UNEVEN, changed
from test_machine_changes import run
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
    assert slow["stages"] == []


@pytest.mark.parametrize("seed", range(5))
def test_steps_that_become_longer_at_once_or_not_at_all_do_not_grow(seed):
    chance = random.Random(seed)
    for change in (100, 400, 700, 900):
        lengths = [int(MS * chance.uniform(1, 1.2) * (3 if number >= change else 1)) for number in range(900)]
        assert slowing.slowing(made(lengths), None) is None
    assert slowing.slowing(made([MS * number for number in range(1, 100)]), None) is None, "too few steps"


@pytest.mark.parametrize("seed", range(5))
def test_a_job_that_trains_larger_and_larger_networks_becomes_slower_in_stages(seed):
    chance, lengths = random.Random(seed), []
    for number in range(5):
        lengths += [int(MS * 3**number * chance.uniform(1, 1.2)) for _ in range(30 + 10 * number)]
    found = slowing.slowing(made(lengths), None)
    assert found["stages"] == pytest.approx([30, 70, 120, 180], abs=2)
    (line,) = changes.lines({"slowing": found})
    assert line.startswith(f"Steps become longer in stages, from about steps {found['stages'][0]}, ")


@pytest.mark.parametrize("seed", range(5))
def test_stages_of_equal_length_are_named(seed):
    chance, lengths = random.Random(seed), []
    for number in range(4):
        lengths += [int(MS * 3**number * chance.uniform(1, 1.2)) for _ in range(60)]
    assert slowing.slowing(made(lengths), None)["stages"] == pytest.approx([60, 120, 180], abs=2)


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


@pytest.mark.parametrize(
    ("category", "part", "words"),
    [
        (Category.DATA, 0.6, "most of the difference is in waiting for data"),
        (Category.OPTIMIZER, 0.6, "most of the difference is in the phase optimizer"),
        (Category.OPTIMIZER, 0.4, "no single module makes up much of it"),
    ],
)
def test_the_line_says_in_which_phase_most_of_the_growth_lies(category, part, words):
    """The rest of the growth is in the forward pass and in the backward pass, the same in both."""
    chance, lengths, rows, at = random.Random(1), [], [], 0
    for number in range(800):
        begin, grown = at, 3 * number / 800
        for each, share in ((category, part), (Category.FORWARD, (1 - part) / 2), (Category.BACKWARD, (1 - part) / 2)):
            end = at + int(MS * (0.3 + share * grown) * chance.gauss(1, 0.03))
            rows.append({"process": 1, "thread": 1, "category": int(each), "start_ns": at, "end_ns": end})
            at = end
        lengths.append(at - begin)
    found = lasting.summary(made(lengths), None, pl.DataFrame(rows, schema_overrides=tables.SPANS))
    (line,) = changes.lines(found)
    assert line.startswith("Steps become longer little by little: ") and line.endswith(f"; {words}")


def test_the_line_says_that_the_growth_lies_outside_of_all_phases():
    (line,) = changes.lines(lasting.summary(*run(0, 0, ran=18, gradual=True)))
    assert line.startswith("Steps become longer little by little: ")
    assert line.endswith("; most of the difference is outside of all phases: the stepping thread runs code")


def test_no_module_is_named_where_everything_becomes_slower_alike_little_by_little():
    found = lasting.summary(*changed(lambda owner: UNEVEN.get(owner, 1.28) ** 2, gradual=True))
    assert found["slowing"]["modules"] == []
    (line,) = changes.lines(found)
    assert "; everything alike, by a factor of " in line


def test_a_hole_in_the_compared_steps_is_no_sudden_change():
    """Steps become longer little by little from step 36 to step 136, and none of these steps has all records."""
    chance = random.Random(5)
    grown = [min(max((number - 36) / 100, 0), 1) for number in range(600)]
    lengths = [int(MS * (3 + 6 * part) * chance.gauss(1, 0.05)) for part in grown]
    assert shifts.shift(made(lengths, lambda number: not 36 <= number < 136), None, NO_SPANS) is None
    # a change that the compared steps show on both sides is found as before
    sudden = made([MS * (3 if number < 300 else 9) for number in range(600)], lambda number: not 36 <= number < 136)
    assert shifts.shift(sudden, None, NO_SPANS)["step"] == 300


@pytest.mark.parametrize("change", [None, 40, 136, 230])
@pytest.mark.parametrize("told", [True, False])
def test_a_sudden_change_within_a_hole_is_found_with_its_module(change, told):
    """Steps 36 to 235 have other records than the compared ones, and become longer at `change` or slowly."""
    chance, hole = random.Random(7), range(36, 236)
    part = [min(max((n - 36) / 200, 0), 1) if change is None else float(n >= change) for n in range(600)]
    lengths = [int(MS * (3 + 6 * part[n] + 0.5 * (n not in hole)) * chance.gauss(1, 0.05)) for n in range(600)]
    sums = [
        (n, owner, 1, 1, int(MS * (1 + 6 * part[n] * (owner == "net.3")) * chance.gauss(1, 0.05)))
        for n in range(600)
        for owner in ("net.2", "net.3", None)
        if n not in hole
    ]
    names = ("step", "owner", "part", "bound", "self_ns")
    table = pl.DataFrame(sums, schema=names, orient="row").cast({"step": pl.UInt32})
    owners = Ownership("host", 1, 1, table, table, table, 1) if told else None
    found = shifts.shift(made(lengths, lambda n: n not in hole), owners, NO_SPANS)
    if change is None:
        assert found is None
        return
    assert found["earliest"] <= change <= found["latest"] and found["latest"] - found["earliest"] <= 25
    assert [item["module"] for item in found["modules"]] == ["net.3"] * told


def test_steps_that_become_longer_with_each_epoch_are_no_sudden_change_around_a_hole():
    """Each epoch of 30 steps takes longer than the one before it; few of the first 136 steps are recorded."""
    chance = random.Random(9)
    steps = made(
        [int(MS * (2 + 2 * (n // 30)) * chance.gauss(1, 0.03)) for n in range(600)],
        lambda n: n < 34 or n in (78, 79) or (n >= 136 and n % 5 < 4),
    )
    found = shifts.shift(steps, None, NO_SPANS)
    assert found is None, found
    assert slowing.slowing(steps, None)["to_ms"] > 30
