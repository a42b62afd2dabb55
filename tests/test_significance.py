import random
import statistics
from itertools import combinations

import pytest
from ms_profiler.gate import noise, significance


def counted(base, new):
    """Return the share of all choices of runs whose rank sum is at least that of the new runs, counted one by one."""
    runs = [*base, *new]
    ranks = [sum(other < run for other in runs) + (sum(other == run for other in runs) + 1) / 2 for run in runs]
    ways = [sum(ranks[index] for index in chosen) for chosen in combinations(range(len(runs)), len(new))]
    return sum(way >= sum(ranks[len(base) :]) for way in ways) / len(ways)


@pytest.mark.parametrize(("base", "new"), [(1, 1), (1, 4), (3, 3), (4, 4), (5, 5), (3, 6)])
def test_p_is_that_of_all_orders_also_with_equal_runs(base, new):
    chance = random.Random(base * 10 + new)
    for values in ([chance.random() for _ in range(base + new)], chance.choices((1, 2, 3), k=base + new)):
        assert significance.larger(values[:base], values[base:]) == pytest.approx(counted(values[:base], values[base:]))


def test_smallest_p_of_so_many_runs():
    assert significance.larger([1, 2, 3], [4, 5, 6]) == pytest.approx(1 / 20)
    assert significance.larger([1, 2, 3, 4], [5, 6, 7, 8]) == pytest.approx(1 / 70)
    assert significance.larger([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]) == pytest.approx(1 / 252)
    assert significance.larger([5.0] * 5, [5.0] * 5) == 1


@pytest.mark.parametrize(("base", "new"), [(4, 4), (5, 5), (4, 7)])
def test_the_interval_holds_the_ratios_that_the_test_does_not_refuse(base, new):
    chance = random.Random(7)
    for _ in range(20):
        before = [chance.gauss(100, 5) for _ in range(base)]
        after = [chance.gauss(108, 5) for _ in range(new)]
        low, high = significance.interval(before, after)
        for ratio, refused in ((low * 0.999, True), (low * 1.001, False)):
            assert (significance.larger(before, [value / ratio for value in after]) < significance.ALPHA) == refused
        for ratio, refused in ((high * 1.001, True), (high * 0.999, False)):
            assert (significance.larger([value / ratio for value in after], before) < significance.ALPHA) == refused
        assert low <= significance.estimate(before, after).ratio <= high


def test_so_few_runs_have_no_interval():
    assert significance.interval([1.0], [1.1]) == (None, None)
    assert significance.interval([1.0, 1.1, 1.2], [1.3, 1.4, 1.5]) == (None, None)


def test_the_interval_holds_the_true_ratio_nine_times_in_ten():
    chance = random.Random(3)
    trials = 600
    inside = 0
    for _ in range(trials):
        before = [chance.gauss(1, 0.03) for _ in range(5)]
        low, high = significance.interval(before, [1.1 * chance.gauss(1, 0.03) for _ in range(5)])
        inside += low <= 1.1 <= high
    assert 0.87 < inside / trials < 0.94


def test_the_spread_is_that_of_the_noise():
    chance = random.Random(4)
    found = [noise.spread([chance.gauss(50, 1.5) for _ in range(10)]) for _ in range(300)]
    assert statistics.mean(found) == pytest.approx(0.03, rel=0.2)
    assert noise.spread([1.0, 1.1, 1.2]) is None


def test_one_run_beside_a_busy_neighbour_lets_no_gate_sleep():
    quiet = [100.0, 100.5, 99.5, 100.2, 99.9, 100.1, 99.8]
    assert noise.floor(quiet, 5) < 0.01
    assert noise.floor([*quiet, 112.0], 5) < 0.05


def test_equal_sides_are_seldom_beyond_the_floor():
    chance = random.Random(5)
    known = [chance.gauss(1, 0.04) for _ in range(400)]
    floor = noise.floor(known[:200], 5)
    beyond = 0
    for _ in range(1000):
        sides = [chance.choices(known, k=200), chance.choices(known, k=5)]
        beyond += statistics.median(sides[1]) / statistics.median(sides[0]) > 1 + floor
    assert 0.02 < beyond / 1000 < 0.08


def test_runs_needed_hold_the_threshold():
    values = [1.0, 1.04, 0.97, 1.06, 0.95, 1.01]
    needed = noise.runs_needed(values, 0.05)
    assert needed > 5
    assert noise.floor(values * needed, 6 * needed) < 0.05
    assert noise.runs_needed(values, 0.001) is None
    assert noise.runs_needed([1.0] * 4, 0.05) == noise.RUNS
