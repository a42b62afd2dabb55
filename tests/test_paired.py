"""Totals of sampled steps and the cost of recording agree with the truth of made-up steps."""

import random
from dataclasses import replace
from types import SimpleNamespace

import polars as pl
import pytest
from ms_profiler.analysis.metrics import between_steps, length_ratios, paired, sampling
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category, StepSource
from ms_profiler.store.names import OWN_WORK, REQUESTED

STEP, EXTRA, BURST, STRETCH = 1_000_000, 200_000, 8, 80


def made(count, seed=1, noise=0.0, drift=0.0):
    """Return steps with a sampled burst at a random place of each stretch, and the lengths without recording in ns.

    A sampled step is `EXTRA` ns longer.
    """
    chance = random.Random(seed)
    sampled, truth = [], []
    for number in range(count):
        if number % STRETCH == 0:
            begin = number + chance.randrange(STRETCH - BURST + 1)
        sampled.append(begin <= number < begin + BURST)
        truth.append(int(STEP * (1 + drift * number / count) * chance.gauss(1, noise)))
    return built(truth, sampled, STRETCH, EXTRA), truth


def built(lengths, sampled, stretch, extra):
    """Return steps with these lengths in ns; a sampled step is `extra` ns longer. A stretch has `stretch` steps."""
    rows, at = [], 0
    for number, (length, recorded) in enumerate(zip(lengths, sampled, strict=True)):
        end = at + length + extra * recorded
        content = tables.ALL_OF_IT if recorded else tables.COARSE
        rows.append((1, 1, number, at, end, 1, recorded, content, number // stretch))
        at = end
    table = pl.DataFrame(rows, schema=tables.STEPS, orient="row")
    return Steps(1, 1, StepSource.SCRIPT, table.with_columns(duration_ns=pl.col("end_ns") - pl.col("start_ns")))


def calls(numbers, steps, category=Category.MODULE, process=1, count=6):
    """Return the spans of `count` calls in each of some steps, given by their numbers, by a process."""
    starts = steps.table["start_ns"].to_list()
    spans = pl.DataFrame(
        [(process, 1, int(category), starts[number] + at) for number in numbers for at in range(count)],
        schema={"process": pl.UInt32, "thread": pl.UInt32, "category": pl.UInt8, "start_ns": pl.Int64},
        orient="row",
    )
    return spans.with_columns(end_ns=pl.col("start_ns") + 1, name=pl.lit(0, pl.UInt32))


def cost(steps, *others, **measured):
    """Return the cost of recording; a sampled step has 6 modules and no coarse span, but for the spans `others`."""
    table = steps.table
    info = SimpleNamespace(cost={"span_ns": 100.0, "idle_ns": 50.0} | measured)
    own = calls(table.with_row_index()["index"].filter(table["recorded"]), steps)
    names = pl.Series([OWN_WORK, REQUESTED])
    recording = SimpleNamespace(info=info, spans=pl.concat([own, *others]), names=names, sums_by_place=None)
    return paired.paired(recording, steps)


def test_the_cost_is_that_of_the_sampled_steps():
    steps, truth = made(2000)
    paid = cost(steps)
    assert paid["pairs"] == 2000 // STRETCH
    assert paid["per_step_ms"] == pytest.approx(EXTRA / 1e6)
    assert paid["recording"] == pytest.approx(200 * EXTRA / (sum(truth) + 200 * EXTRA), abs=1e-6)
    assert paid["hooks"] == pytest.approx(6 * 50 * 2000 / steps.table["duration_ns"].sum(), abs=1e-6)


def test_hooks_at_rest_add_a_constant_for_each_call_of_a_module():
    """In the first half of the steps, hooks record the passes of all steps; in the second half, they rest."""
    steps, _ = made(2000)
    steps = replace(steps, source=StepSource.OPTIMIZER_CYCLE)
    measured = {"hooks_ns": 3000.0, "hooks_own_ns": 300.0, "hooks_steps": 100, "rest_ns": 210.0}
    passes = calls(range(2000), steps, Category.FORWARD, count=1)
    each = steps.table["duration_ns"].mean()
    assert cost(steps, passes, **measured)["hooks"] == pytest.approx(3000 / each, abs=1e-6)
    rested = 0.9 / 2  # of ten steps, nine are not sampled
    expected = pytest.approx((3000 + 210 * rested) / each, abs=1e-6)
    assert cost(steps, passes[:1000], **measured)["hooks"] == expected


def test_work_between_steps_is_a_part_of_the_cost_but_not_what_the_script_requests():
    steps, _ = made(2000)
    work = calls(range(0, 2000, 100), steps, Category.PROFILER, count=1).with_columns(end_ns=pl.col("start_ns") + STEP)
    requested = work.with_columns(name=pl.lit(1, pl.UInt32))
    others = work.with_columns(process=pl.lit(2, pl.UInt32)), work.with_columns(thread=pl.lit(2, pl.UInt32))
    late = work.head(1).with_columns(pl.col("start_ns", "end_ns") + 10**12)
    without, paid = cost(steps), cost(steps, work, requested[1:], *others, late)
    assert without["between"] == 0
    assert paid["between"] == pytest.approx(20 * STEP / steps.table["duration_ns"].sum(), abs=1e-6)
    assert paid["share"] == pytest.approx(without["share"] + paid["between"], abs=1e-5)
    waited = work.with_columns(end_ns=pl.col("end_ns") + 100 * STEP * (pl.int_range(pl.len()) == 3))
    assert cost(steps, waited)["between"] == pytest.approx(27 * STEP / steps.table["duration_ns"].sum(), abs=1e-6)


def test_the_helper_thread_is_a_part_of_the_cost():
    steps, _ = made(2000)
    assert cost(steps)["helper"] == 0
    assert cost(steps, helper=0.004)["helper"] == 0.004
    assert cost(steps, helper=0.004)["share"] == pytest.approx(cost(steps)["share"] + 0.004, abs=1e-6)


def test_modules_of_other_processes_and_of_steps_that_are_not_sampled_do_not_count_for_the_hooks():
    steps, _ = made(2000)
    others = calls(range(2000), steps, process=2), calls([1, 12], steps)
    assert not steps.table["recorded"].gather([1, 12]).any()
    assert cost(steps, *others) == cost(steps)


def test_its_standard_error_holds_in_noise():
    inside = 0
    for seed in range(40):
        steps, _ = made(4000, seed, 0.1, 0.3)
        paid = cost(steps)
        true = steps.recorded.height * EXTRA / steps.table["duration_ns"].sum()
        inside += abs(paid["recording"] - true) <= 2 * paid["standard_error"]
    assert inside >= 34, "95 % of them, within what 40 of them may be off"


def test_too_few_pairs_give_no_cost():
    assert cost(made(6 * STRETCH)[0]) is None


def total(steps, own):
    """Return the estimated total of one operator and its error; `own` has its time in each recorded step."""
    values = pl.DataFrame({"row": list(own), "name": "x", "ns": list(own.values())}).cast({"row": pl.UInt32})
    sample = sampling.sample(steps, pl.DataFrame(schema=tables.SPANS))
    return sampling.estimate(values, ["name"], ["ns"], sample).select("ns", "ns_error").row(0)


def test_a_total_is_of_all_steps_and_its_standard_error_holds():
    inside = 0
    for seed in range(40):
        steps, truth = made(4000, seed, 0.1, 0.3)
        rows = steps.table["recorded"].arg_true().to_list()
        found, error = total(steps, {row: truth[row] for row in rows})
        assert found == pytest.approx(sum(truth), rel=0.02)
        inside += abs(found - sum(truth)) <= 2 * error
    assert inside >= 34


def few(slow, extra=0):
    """Return 2,000 steps in five stretches with a burst each, their lengths in ns, and those of the recorded ones.

    `slow` gives the factor of a step's length. A sampled step is `extra` ns longer.
    """
    sampled = [0 <= number - 470 * (number // 400) < BURST for number in range(2000)]
    truth = [int(STEP * slow(number)) for number in range(2000)]
    return built(truth, sampled, 400, extra), truth, [row for row, chosen in enumerate(sampled) if chosen]


@pytest.mark.parametrize("extra", [0, EXTRA])
def test_a_total_is_right_though_the_few_sampled_steps_are_slower_than_the_others(extra):
    """Every burst lies in a slow period of the machine, in which everything takes 1.5 times as long."""
    steps, truth, recorded = few(lambda number: 1.5 if (number + 30) % 470 < 60 else 1.0, extra)
    assert sum(truth[row] for row in recorded) / len(recorded) > 1.2 * sum(truth) / len(truth)
    found, error = total(steps, {row: 0.6 * (truth[row] + extra) for row in recorded})
    assert found == pytest.approx(0.6 * (sum(truth) + extra * len(truth)), rel=0.01)
    assert abs(found - 0.6 * (sum(truth) + extra * len(truth))) <= 2 * error


def test_a_step_with_other_work_that_was_not_sampled_does_not_make_a_total_longer():
    """One step takes 500 times as long, for example because of an evaluation without any hook."""
    steps, _, recorded = few(lambda number: 500.0 if number == 1000 else 1.0)
    found, error = total(steps, dict.fromkeys(recorded, 0.6 * STEP))
    assert found == pytest.approx(0.6 * STEP * 2000, rel=0.005)
    assert abs(found - 0.6 * STEP * 2000) <= 2 * error


@pytest.mark.parametrize(
    "slow",
    [
        lambda number: 0.0 if number % 470 < BURST else 1.0,  # the recorded steps only wait
        lambda number: 5.0 if BURST <= number % 470 < 5 * BURST else 1.0,  # those next to them are slow
    ],
)
def test_an_estimate_that_the_lengths_of_the_steps_mislead_says_so_in_its_error(slow):
    steps, _, recorded = few(slow)
    found, error = total(steps, dict.fromkeys(recorded, 100))
    assert 0 < found <= 100 * 2000 * length_ratios.LONGEST
    assert error >= 0.4 * abs(found - 100 * 2000) > 0, "five bursts, each with an error of its own"


def test_totals_of_gaps_that_are_mostly_recorded_on_a_slow_machine_have_an_error_that_holds():
    """A fifth of the gaps takes 20 times as long. Of these, most are recorded; of the others, few."""
    inside = 0
    for seed in range(40):
        chance, rows, truth = random.Random(seed), [], 0
        for row in range(30):
            slow = row < 6
            recorded, size = chance.random() < (0.8 if slow else 0.2), int(STEP * chance.gauss(20 if slow else 1, 0.1))
            ns = int(size * chance.gauss(0.85 if slow else 0.8, 0.05))
            rows.append((row, recorded, True, 192.0, 0, size, ns, "x"))
            truth += ns
        names = ["row", "recorded", "calls", "size", "part", "ns", "own", "name"]
        made = pl.DataFrame(rows, schema=names, orient="row")
        gaps = between_steps.Gaps(made.select(names[:4]), made.select("row", "part", "ns"))
        values = made.filter("recorded").select("name", "row", "part", ns="own")
        total, error = between_steps.estimate(values, ["name"], ["ns"], gaps).select("ns", "ns_error").row(0)
        assert total == pytest.approx(truth, rel=0.1)
        inside += abs(total - truth) <= 2 * error
    assert inside >= 34


def test_an_error_unknown_from_one_burst_is_not_0():
    one, _ = made(STRETCH)
    row = int(one.table["recorded"].arg_max())
    schema = {"place": pl.UInt64, "name": pl.String, "ns": pl.Int64}
    sums = pl.DataFrame({"place": [sampling.FIRST + row, sampling.EXACT], "name": "x", "ns": [5, 7]}, schema=schema)
    gaps = sampling.between(sums, one, pl.DataFrame(schema=tables.SPANS))
    (found,) = sampling.totals(
        sums, ["name"], ["ns"], sampling.sample(one, pl.DataFrame(schema=tables.SPANS)), gaps
    ).to_dicts()
    assert found["ns"] > 12 and found["ns_error"] is None


def test_a_stretch_without_a_burst_belongs_to_the_one_before():
    steps, _ = made(4 * STRETCH)
    table = steps.table.with_columns(
        pl.when(pl.col("stretch") == 2).then(False).otherwise("recorded").alias("recorded"),
        pl.when(pl.col("stretch") == 2).then(pl.lit(tables.COARSE)).otherwise("content").alias("content"),
    )
    weights = sampling.weights(table)
    assert weights.sum() == pytest.approx(4 * STRETCH)
    assert weights.filter(table["stretch"] == 1).drop_nulls().unique().to_list() == [2 * STRETCH / BURST]
