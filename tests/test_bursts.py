"""Steps are sampled within a budget of time, in bursts at random places; the test simulates a job with a known cost."""

import math
import random
from functools import partial
from itertools import groupby

import pytest
from ms_profiler.job.bursts import BLOCKS, LEAST, LENT, LONG, SHORT, SPENT, Bursts

STEP = 1_000_000


def newest(lengths, count):
    return lengths[-count:]


def run(
    share,
    cost,
    steps=20_000,
    slower_from=None,
    noise=0.05,
    slower=2.0,
    debt=0.0,
    load=0.0,
    wait=6,
    lasting=0,
    seed=7,
    chance=7,
    over=0.0,
    more_from=None,
    beside=0,
):
    """Simulate a job whose sampled steps cost more than others.

    Args:
        share: the budget as a share of the time.
        cost: the cost of a sampled step in ns.
        steps: number of steps.
        slower_from: number of the step after which all steps are slower; None for never.
        noise: the standard deviation of a step's length, relative to the length.
        slower: the factor by which later steps are slower.
        debt: time that recording has taken beyond its share before, in ns.
        load: the part of the steps in which the job loses its processor.
        wait: the longest time for which it does, in steps.
        lasting: number of steps after which the speed of the machine changes, again and again; 0 for never.
        seed: number from which the positions of bursts follow.
        chance: number from which the disturbances of the job follow.
        over: the share of the time that hooks take beyond the budget.
        more_from: number of the step after which a step has 5 % more records; None for never.
        beside: what another thread of ms-profiler takes during each step, in ns.

    Returns:
        (stretch, whether it was sampled) of each step, and the true share of the cost in the job's time.
    """
    chance, now, paid, owed, speed = random.Random(chance), 0, 0.0, 0, 1.0
    lengths = []
    bursts, seen = Bursts(share, 0, 0, debt, cost / 3, STEP, partial(newest, lengths), seed), []
    bursts.over = over
    for count in range(1, steps + 1):
        if lasting and count % lasting == 0:
            speed = chance.uniform(0.7, 1.4)
        length = STEP * speed * chance.gauss(1, noise) * (slower if slower_from and count > slower_from else 1)
        sampled = bursts.sampled
        if load and chance.random() < load:
            length += STEP * chance.uniform(0, wait)
        length += cost * sampled
        lengths.append(int(length))
        paid += cost * sampled
        now += length
        seen.append((bursts.stretch, sampled))
        if count >= bursts.next_look and bursts.compare(count, int(now)):
            continue
        if count >= bursts.next_look:
            bursts.owe(beside * (count - owed))
            owed = count
            bursts.passed(count, int(now), cost / 3 * (1.05 if more_from and count > more_from else 1))
        elif length > bursts.long_ns:
            bursts.slow(count, int(now))
    return seen, paid / now


@pytest.mark.parametrize("share", [0.05, 0.01, 0.002])
@pytest.mark.parametrize("cost", [30_000, 200_000, 1_000_000])
def test_the_cost_is_within_the_budget(share, cost):
    seen, paid = run(share, cost)
    assert paid < share + 0.005
    sampled = sum(kind for _, kind in seen)
    assert sampled * cost > 0.3 * share * len(seen) * STEP or sampled > 0.9 * len(seen), "the budget is used"


@pytest.mark.parametrize("beside", [2_000, 10_000, 25_000])
def test_what_another_thread_takes_is_a_part_of_the_budget(beside):
    _, paid = run(0.05, 500_000, beside=beside)
    assert paid + beside / STEP < 0.055
    assert paid > 0.3 * (0.05 - beside / STEP), "the rest of the budget is used"


def test_a_stretch_has_one_burst_anywhere_in_it():
    seen, _ = run(0.01, 200_000)
    places = []
    for _, steps in groupby(seen, key=lambda row: row[0]):
        kinds = [kind for _, kind in steps]
        bursts = [(kind, len(list(rows))) for kind, rows in groupby(kinds)]
        assert sum(kind for kind, _ in bursts) <= 1
        if any(kinds) and len(kinds) > 2 * LEAST:
            assert kinds.count(True) >= SPENT
            places.append(kinds.index(True) / (len(kinds) - kinds.count(True)))
    assert len(places) > 50
    assert abs(sum(places) / len(places) - 0.5) < 5 / math.sqrt(12 * len(places)), "of a uniform distribution"


def test_a_change_has_more_steps_sampled_after_it():
    seen, paid = run(0.01, 200_000, slower_from=15_000)
    assert paid < 0.015
    before, after = (sum(kind for _, kind in seen[start : start + 500]) for start in (14_000, 15_000))
    assert after > 1.5 * before


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("slower", [1.15, 0.85])
def test_a_small_change_late_in_a_long_stretch_is_sampled(seed, slower):
    seen, paid = run(0.002, 600_000, slower_from=15_000, slower=slower, seed=seed)
    assert sum(kind for _, kind in seen[15_000:18_500]) >= LEAST
    assert paid < 0.006
    *_, longest = sorted(len(list(steps)) for _, steps in groupby(seen[:15_000], key=lambda row: row[0]))
    assert longest > 1500, "without a change, stretches are long"


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("slower", [1.15, 0.85])
def test_a_change_is_sampled_soon_and_in_a_stretch_of_its_own_although_the_loan_is_spent(seed, slower):
    seen, _ = run(0.002, 600_000, slower_from=15_000, slower=slower, debt=4e7, seed=seed)
    # three blocks of steps until the change is noticed, and a short stretch
    last = 15_000 + 3 * 16_000 // BLOCKS + 16_000 // SHORT
    sampled = [stretch for stretch, kind in seen[15_000:last] if kind]
    assert len(sampled) >= LEAST
    assert sampled[-1] not in {stretch for stretch, _ in seen[:15_000]}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("share", [0.002, 0.0006])
def test_the_last_quarter_is_sampled_several_times_although_first_steps_spent_the_budget(seed, share):
    seen, paid = run(share, 900_000, debt=32 * 900_000, seed=seed)
    sampled = [stretch for stretch, kind in seen[15_000:] if kind]
    assert len(sampled) >= 8
    assert len(set(sampled)) >= 2
    assert paid < 0.004


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("lasting", [500, 1500, 3000])
def test_on_a_machine_whose_speed_changes_all_the_time_the_cost_stays_near_the_budget(seed, lasting):
    seen, paid = run(0.002, 600_000, lasting=lasting, seed=seed)
    assert paid < 0.002 + 0.005
    assert sum(kind for _, kind in seen[10_000:]) >= LEAST


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("slower", [1.04, 0.96])
@pytest.mark.parametrize("load", [0.0, 0.3])
def test_a_very_small_change_is_sampled_soon_although_other_programs_disturb_the_job(seed, slower, load):
    seen, _ = run(0.002, 600_000, slower_from=15_000, slower=slower, load=load, noise=0.01, seed=seed)
    # four blocks of steps, because a burst ends a block early
    last = 15_000 + 4 * 16_000 // BLOCKS + 16_000 // SHORT
    sampled = [stretch for stretch, kind in seen[15_000:last] if kind]
    assert len(sampled) >= LEAST
    assert sampled[-1] not in {stretch for stretch, _ in seen[:15_000]}


@pytest.mark.parametrize("debt", [0.0, 1e8])
def test_changes_again_and_again_stay_within_the_budget(debt):
    """A series of bursts follows a change, also after the loan is spent, but many changes do not exceed the budget."""
    now, paid, begun, sampled, lengths = 0, 0, [], False, []
    bursts = Bursts(0.002, 0, 0, debt, 70_000, STEP, partial(newest, lengths), 7)
    for count in range(1, 40_000):
        if bursts.sampled and not sampled:
            begun.append(count)
        sampled = bursts.sampled
        lengths.append(int(STEP * (1.0 if count // 1_600 % 2 else 1.4)) + 200_000 * sampled)
        now, paid = now + lengths[-1], paid + 200_000 * sampled
        if count >= bursts.next_look:
            bursts.passed(count, now, 70_000)
    assert len([count for count in begun if count >= 1_600]) > LENT
    assert 0.0005 < paid / now < 0.005


@pytest.mark.parametrize("seed", range(6))
def test_other_numbers_of_records_bring_sampled_steps_although_no_step_becomes_longer(seed):
    """A module that works twice may lengthen steps by less than other programs do."""

    def later(change):
        seen, _ = run(0.002, 300_000, seed=seed, chance=seed, more_from=change)
        return sum(kind for _, kind in seen[12_000:])

    counts = later(None), later(12_000)
    assert counts[1] >= counts[0] + 2 * LEAST, counts


def test_a_job_within_the_share_leaves_out_ever_fewer_steps():
    seen, _ = run(0.05, 10_000)
    left_out = [number for number, (_, kind) in enumerate(seen) if not kind]
    assert len([number for number in left_out if number >= 10_000]) <= len(left_out) / 3
    assert 0 < len(left_out) < 300


def test_a_slow_step_does_not_starve_sampling():
    """The rate of sampling rises once. Steps that stay slow then count as usual steps."""
    now, bursts, sampled = 0, Bursts(0.01, 0, 0, 0.0, 50_000, STEP, lambda count: [], 7), 0
    for count in range(1, 5_000):
        length = STEP if count < 1_000 else 2 * LONG * STEP
        sampled += bursts.sampled and count > 1_500
        now += length
        if count >= bursts.next_look:
            bursts.passed(count, int(now), 50_000)
        elif length > bursts.long_ns:
            bursts.slow(count, int(now))
    assert sampled > 20


def test_recording_borrows_less_where_hooks_alone_exceed_the_budget():
    job = partial(run, 0.0006, 450_000, slower_from=15_000, slower=1.05, noise=0.03, debt=6e6)
    most, runs, least = ([job(over=over, seed=seed, chance=seed) for seed in range(12)] for over in (0.0, 0.0026, 0.02))
    assert all(paid < 0.0025 and paid < 0.85 * before for (_, paid), (_, before) in zip(runs, most, strict=True))
    assert all(sum(kind for _, kind in seen[15_000:]) >= 2 * SPENT for seen, _ in runs)
    soon = sorted(sum(kind for _, kind in seen[15_000:16_500]) for seen, _ in runs)
    assert soon[6] > LEAST, "the loan lasts for the steps after a change"
    assert all(sum(kind for _, kind in seen) >= 10 * SPENT for seen, _ in least), "however much the hooks take"


def test_long_waits_for_a_processor_leave_enough_bursts():
    """Each 20th step waits for up to 40 steps' time, so single bursts seem to cost many times what they do."""
    runs = [
        run(0.026, 200_000, steps=5_000, load=0.05, wait=40, debt=20 * STEP, seed=seed, chance=seed)
        for seed in range(40)
    ]
    assert min(len({stretch for stretch, sampled in seen if sampled}) for seen, _ in runs) >= 15
    assert sum(paid for _, paid in runs) / len(runs) < 0.026
