import random

import pytest
from ms_profiler.gate import change_points


def energy(left, right):
    """Return the energy statistic of two samples, computed pair by pair."""
    n, m = len(left), len(right)
    across = sum(abs(a - b) for a in left for b in right)
    within = [sum(abs(a - b) for a in part for b in part) / 2 for part in (left, right)]
    inner = within[0] / (n * (n - 1) / 2) + within[1] / (m * (m - 1) / 2)
    return n * m / (n + m) * (2 * across / (n * m) - inner)


def series(seed, noise, before, after=0, shift=1.03):
    chance = random.Random(seed)
    return [chance.gauss(100, 100 * noise) * (shift if index >= before else 1) for index in range(before + after)]


def test_the_best_place_is_that_of_all_places():
    for seed in range(10):
        values = series(seed, 0.02, 6, 7)
        places = range(change_points.SMALLEST, len(values) - change_points.SMALLEST + 1)
        place, most = change_points.best(values)
        assert most == pytest.approx(max(energy(values[:at], values[at:]) for at in places))
        assert most == pytest.approx(energy(values[:place], values[place:]))


@pytest.mark.parametrize("before", [10, 20])
def test_a_shift_of_three_percent_is_found_within_twenty_runs(before):
    for seed in range(2):
        found = change_points.find(series(seed, 0.01, before, 20))
        assert any(abs(each.index - before) <= 1 and 1.02 < each.ratio < 1.04 for each in found)


def test_equal_runs_seldom_have_a_change():
    alarms = sum(bool(change_points.find(series(seed, 0.02, 20))) for seed in range(100))
    assert alarms <= 4  # 1 % of 100 is expected; five or more happen by chance in one of three hundred runs


def test_two_changes_are_two():
    values = series(1, 0.005, 15) + [value * 1.05 for value in series(2, 0.005, 15)] + series(3, 0.005, 15)
    assert [found.ratio for found in change_points.find(values)] == pytest.approx([1.05, 0.95], abs=0.01)


def test_the_same_series_gives_the_same_answer_and_a_level_one_none():
    values = series(5, 0.02, 15, 10)
    assert change_points.find(values) == change_points.find(values)
    assert change_points.find([261.0] * 40) == []
    assert change_points.find([1.0, 2.0, 3.0]) == []
    (found,) = change_points.find([261.0] * 20 + [262.0] * 5)
    assert found.index == 20


def test_runs_older_than_the_window_do_not_count():
    values = series(6, 0.005, 20, 60)
    assert change_points.find(values) == []
    assert change_points.find(values, window=80)[0].index == 20
