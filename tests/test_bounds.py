"""What bounds a step: worked out by hand, in microseconds."""

import pytest
from microseconds import US, phases, shown, spans
from ms_profiler.analysis.metrics import bounds


def parts(cut, computing=(), communicating=(), drained=(), operators=()):
    ran = None if operators is None else spans(*operators)
    table = bounds.parts(cut, spans(*computing), spans(*communicating), spans(*drained), ran)
    return shown(table)


def test_each_moment_is_the_first_that_holds():
    cut = phases((0, "data", 0, 30), (0, "forward", 30, 80), (0, "sync", 80, 90), (0, "other", 90, 100))
    found = parts(cut, computing=[(20, 40)], communicating=[(35, 50)], drained=[(85, 95)], operators=[(20, 40)])
    assert found == [
        (0, "data", 0, 20),
        (0, "computing", 20, 40),
        (0, "communication", 40, 50),
        (0, "launch", 50, 80),
        (0, "sync", 80, 95),
        (0, "launch", 95, 100),
    ]


def test_a_long_gap_of_the_script_is_the_hosts_and_one_of_the_model_is_a_launch():
    cut = phases((3, "other", 0, 9000), (3, "backward", 9000, 18000))
    assert parts(cut, operators=[(0, 10), (2000, 2010), (8000, 9000)]) == [
        (3, "launch", 0, 2010),
        (3, "host", 2010, 8000),
        (3, "launch", 8000, 18000),
    ]


def test_without_operators_nothing_is_known_of_launches():
    cut = phases((0, "other", 0, 10), (0, "forward", 10, 40), (1, "checkpoint", 40, 50), (1, "compile", 50, 60))
    assert parts(cut, computing=[(10, 40)], operators=None) == [
        (0, "host", 0, 10),
        (0, "computing", 10, 40),
        (1, "checkpoint", 40, 50),
        (1, "compile", 50, 60),
    ]


def test_parts_add_up_to_the_steps_and_shares_to_one():
    cut = phases((0, "data", 0, 60), (0, "forward", 60, 100), (1, "forward", 100, 140))
    table = bounds.parts(cut, spans((60, 90), (100, 140)), spans(), spans(), spans((60, 90), (100, 140)))
    times = bounds.by_step(table)
    assert times.rows() == [
        (0, "computing", 30 * US),
        (0, "data", 60 * US),
        (0, "launch", 10 * US),
        (1, "computing", 40 * US),
    ]
    shares = bounds.shares(times)
    assert shares == pytest.approx(
        {**dict.fromkeys(bounds.PARTS, 0.0), "computing": 0.5, "data": 3 / 7, "launch": 1 / 14}
    )
    assert list(shares) == list(bounds.PARTS)
