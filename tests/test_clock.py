import random

import polars as pl
import pytest
from ms_profiler.analysis.model.clock import Clock, WallStep
from ms_profiler.store.reader import Anchor

RAW = 86_400_000_000_000
REAL = 1_760_000_000_123_456_789
SECOND = 10**9


def anchors(*offsets, spacing=60 * SECOND, half_width=100):
    """Return anchors `spacing` ns apart; `offsets` are the differences in ns to the offset of the first anchor."""
    return [
        Anchor(RAW + number * spacing, REAL + number * spacing + offset, half_width)
        for number, offset in enumerate(offsets)
    ]


def test_one_anchor_is_a_constant():
    clock = Clock.from_anchors(anchors(0))
    for raw in (0, RAW, RAW + 123_456_789_123):
        assert clock.epoch_ns(raw) == raw + REAL - RAW
    assert clock.uncertainty_ns == 100 and clock.steps == ()


def test_differences_within_the_uncertainty_keep_durations_as_measured():
    clock = Clock.from_anchors(anchors(0, 150, -120, 199))
    assert len(clock.knots) == 1
    assert clock.epoch_ns(RAW + 200 * SECOND) - clock.epoch_ns(RAW + 13) == 200 * SECOND - 13


def test_creep_is_interpolated_and_exact_at_the_anchors():
    drift = anchors(0, 1_200_000, 2_400_007, 3_599_991)  # 20 ppm
    clock = Clock.from_anchors(drift)
    assert clock.steps == ()
    for anchor in drift:
        assert clock.epoch_ns(anchor.raw_ns) == anchor.real_ns
    assert clock.epoch_ns(RAW + 30 * SECOND) == REAL + 30 * SECOND + 600_000


def test_conversion_is_exact_against_integers():
    drift = anchors(0, 1_234_567, 2_345_678, 1_111_111, spacing=57_123_456_789)
    clock = Clock.from_anchors(drift)
    generator = random.Random(1)
    for _ in range(500):
        raw = RAW + generator.randrange(3 * 57_123_456_789)
        left = drift[(raw - RAW) // 57_123_456_789]
        right = drift[(raw - RAW) // 57_123_456_789 + 1]
        change = (right.real_ns - right.raw_ns) - (left.real_ns - left.raw_ns)
        exact = raw + left.real_ns - left.raw_ns + change * (raw - left.raw_ns) / (right.raw_ns - left.raw_ns)
        assert abs(clock.epoch_ns(raw) - round(raw + left.real_ns - left.raw_ns)) <= abs(change) + 1
        twice = 2 * (clock.epoch_ns(raw) - raw - left.real_ns + left.raw_ns) * (right.raw_ns - left.raw_ns)
        assert abs(twice - 2 * change * (raw - left.raw_ns)) <= (right.raw_ns - left.raw_ns) + 2, exact


def test_conversion_never_runs_backwards():
    clock = Clock.from_anchors(anchors(0, -20_000_000, 3_000_000, 1))
    generator = random.Random(2)
    raw = sorted(RAW - SECOND + generator.randrange(200 * SECOND) for _ in range(5000))
    epoch = clock.epoch(pl.Series(raw, dtype=pl.Int64))
    assert epoch.is_sorted()


@pytest.mark.parametrize("jump", [3600 * SECOND, -5 * SECOND, 50_000_000])
def test_setting_the_wall_clock_is_reported_and_taken_out(jump):
    clock = Clock.from_anchors(anchors(0, 0, jump, jump))
    assert clock.steps == (WallStep(REAL + 120 * SECOND, jump, REAL + 60 * SECOND),)
    assert clock.epoch_ns(RAW + 150 * SECOND) == REAL + 150 * SECOND


def test_creep_continues_after_a_step():
    clock = Clock.from_anchors(anchors(0, 1_200_000, SECOND + 2_400_000, SECOND + 3_600_000))
    assert len(clock.steps) == 1
    # a set clock and a creep between the anchors around the set cannot be told apart
    assert clock.epoch_ns(RAW + 180 * SECOND) == REAL + 180 * SECOND + 2_400_000


def test_poor_readings_are_not_used():
    poor = Anchor(RAW + 30 * SECOND, REAL + 30 * SECOND + 4_000_000, 5_000_000)
    clock = Clock.from_anchors([*anchors(0, 0), poor])
    assert clock.epoch_ns(RAW + 30 * SECOND) == REAL + 30 * SECOND
    assert clock.uncertainty_ns == 100


def test_order_of_the_anchors_does_not_matter():
    drift = anchors(0, 1_200_000, 2_400_000)
    assert Clock.from_anchors(reversed(drift)) == Clock.from_anchors(drift)


def test_fallback_serves_where_there_is_no_anchor():
    fallback = Anchor(RAW, REAL, 1_000_000)
    assert Clock.from_anchors([], fallback).epoch_ns(RAW + 5) == REAL + 5
    assert Clock.from_anchors(anchors(0), fallback).uncertainty_ns == 100


def test_without_any_pair_times_stay_and_the_uncertainty_is_unknown():
    clock = Clock.from_anchors([])
    assert clock.epoch_ns(77) == 77 and clock.uncertainty_ns is None


def stepped(*offsets):
    """Return a clock with an anchor every minute; `offsets` are the differences in ns to the first anchor's offset."""
    return Clock.from_anchors(anchors(*offsets))


@pytest.mark.parametrize("jump", [3600 * SECOND, -3600 * SECOND, 50_000_000])
def test_readings_of_the_wall_clock_are_brought_onto_the_line(jump):
    clock = stepped(0, 0, jump, jump)
    # a time before the clock was set, and times after the anchors that show it
    times = [REAL + 50 * SECOND, REAL + 125 * SECOND, REAL + 170 * SECOND]
    wall = pl.Series([times[0], times[1] + jump, times[2] + jump], dtype=pl.Int64)
    assert clock.from_wall(wall[:1], REAL, REAL + 60 * SECOND).to_list() == times[:1]
    assert clock.from_wall(wall[1:], REAL + 121 * SECOND, REAL + 180 * SECOND).to_list() == times[1:]


def test_readings_without_a_step_are_the_line_itself_as_far_as_they_can_be():
    wall = pl.Series([REAL - 2 * SECOND, REAL, REAL + 5, REAL + 20 * SECOND], dtype=pl.Int64)
    found = stepped(0, 0).from_wall(wall, REAL, REAL + 10 * SECOND).to_list()
    assert found == [None, REAL, REAL + 5, None]


def test_readings_after_several_steps():
    clock = stepped(0, 10 * SECOND, 10 * SECOND, -90 * SECOND, -90 * SECOND)
    assert len(clock.steps) == 2
    for second, offset in ((10, 0), (100, 10), (220, -90)):
        wall = pl.Series([REAL + (second + offset) * SECOND], dtype=pl.Int64)
        time = REAL + second * SECOND
        assert clock.from_wall(wall, time - SECOND, time + SECOND).to_list() == [time]
