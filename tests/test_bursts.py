"""Steps are sampled within a budget of time, in bursts at random places; the simulated job has a planted truth."""

import math
import os
import random
from itertools import groupby

import pytest
from ms_profiler.job.bursts import LEAST, LONG, Bursts, Dice

STEP = 1_000_000


@pytest.fixture(autouse=True)
def _same_each_time(monkeypatch):
    monkeypatch.setattr(os, "urandom", lambda count: bytes(range(count)))


def run(share, cost, steps=20_000, slower_from=None, noise=0.05):
    """Simulate a job with a given cost of a sampled step, ns; return the sampled steps, their stretches, and the true
    share.
    """
    chance, now, paid = random.Random(7), 0, 0.0
    bursts, seen = Bursts(share, 0, 0, 0.0, cost / 3, STEP), []
    for count in range(1, steps + 1):
        length = STEP * chance.gauss(1, noise) * (2 if slower_from and count > slower_from else 1)
        sampled = bursts.sampled
        length += cost * sampled
        paid += cost * sampled
        now += length
        seen.append((bursts.stretch, sampled))
        if count >= bursts.next_look:
            bursts.passed(count, int(now), cost / 3)
        elif length > bursts.long_ns:
            bursts.slow(count, int(now))
    return seen, paid / now


@pytest.mark.parametrize("share", [0.05, 0.01, 0.002])
@pytest.mark.parametrize("cost", [30_000, 200_000, 1_000_000])
def test_what_is_paid_is_within_the_share(share, cost):
    seen, paid = run(share, cost)
    assert paid < share + 0.005
    sampled = sum(kind for _, kind in seen)
    assert sampled * cost > 0.3 * share * len(seen) * STEP or sampled > 0.9 * len(seen), "the budget is used"


def test_a_stretch_has_one_burst_anywhere_in_it():
    seen, _ = run(0.01, 200_000)
    places = []
    for _, steps in groupby(seen, key=lambda row: row[0]):
        kinds = [kind for _, kind in steps]
        bursts = [(kind, len(list(rows))) for kind, rows in groupby(kinds)]
        assert sum(kind for kind, _ in bursts) <= 1
        if any(kinds) and len(kinds) > 2 * LEAST:
            assert kinds.count(True) >= LEAST
            places.append(kinds.index(True) / (len(kinds) - kinds.count(True)))
    assert len(places) > 50
    assert abs(sum(places) / len(places) - 0.5) < 5 / math.sqrt(12 * len(places)), "of a uniform distribution"


def test_a_change_has_more_steps_sampled_after_it():
    seen, paid = run(0.01, 200_000, slower_from=15_000)
    assert paid < 0.015
    before, after = (sum(kind for _, kind in seen[start : start + 500]) for start in (14_000, 15_000))
    assert after > 1.5 * before


def test_a_job_within_the_share_leaves_out_ever_fewer_steps():
    seen, _ = run(0.05, 10_000)
    left_out = [number for number, (_, kind) in enumerate(seen) if not kind]
    assert len([number for number in left_out if number >= 10_000]) <= len(left_out) / 3
    assert 0 < len(left_out) < 300


def test_a_slow_step_does_not_starve_sampling():
    """The rate rises once; steps that stay slow then count as usual."""
    now, bursts, sampled = 0, Bursts(0.01, 0, 0, 0.0, 50_000, STEP), 0
    for count in range(1, 5_000):
        length = STEP if count < 1_000 else 2 * LONG * STEP
        sampled += bursts.sampled and count > 1_500
        now += length
        if count >= bursts.next_look:
            bursts.passed(count, int(now), 50_000)
        elif length > bursts.long_ns:
            bursts.slow(count, int(now))
    assert sampled > 20


def test_dice_are_fair_and_not_the_jobs():
    random.seed(1)
    state = random.getstate()
    dice = Dice()
    thrown = [dice.below(6) for _ in range(6_000)]
    assert {*thrown} == set(range(6))
    assert all(abs(thrown.count(side) - 1_000) < 6 * math.sqrt(1_000 * 5 / 6) for side in range(6))
    assert random.getstate() == state
