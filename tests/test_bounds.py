"""The parts that bound a step are those that a person computed by hand, in microseconds."""

import polars as pl
import pytest
from microseconds import US, phases, shown, spans, table
from ms_profiler.analysis.metrics import bounds, intervals, scheduling


def parts(cut, computing=(), communicating=(), drained=(), operators=(), collecting=(), cells=(), beside=False):
    ran = None if operators is None else spans(*operators)
    known = table(cells, **scheduling.CELLS)
    found = bounds.parts(
        cut, spans(*computing), spans(*communicating), spans(*drained), ran, spans(*collecting), known, beside
    )
    return shown(intervals.merge(found, "step", "part").select("step", "part", *intervals.BOUNDS))


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
        (3, "unknown", 2010, 8000),
        (3, "launch", 8000, 18000),
    ]


def test_outside_of_the_model_an_operator_is_launched_as_fast_as_in_the_model():
    cut = phases((0, "forward", 0, 1000), (0, "other", 1000, 3000))
    cells = [(0, 3000, 0, 0)]
    model = [(0, 100), (104, 200), (206, 1100)]  # the gaps last 4 and 6 us
    metric = [(1300, 1310), (1340, 1350), (1550, 3000)]
    assert parts(cut, computing=model, operators=[*model, *metric], cells=cells)[4:] == [
        (0, "computing", 206, 1100),
        (0, "host", 1100, 1300),
        (0, "launch", 1300, 1350),
        (0, "host", 1350, 1550),
        (0, "launch", 1550, 3000),
    ]
    # launching is slow in this run
    slow = [(0, 100), (140, 200), (260, 1100)]
    assert parts(cut, computing=slow, operators=[*slow, *metric], cells=cells)[4:] == [
        (0, "computing", 260, 1100),
        (0, "launch", 1100, 3000),
    ]
    # the way from the model to the next operator includes the end of the module
    later = phases((0, "forward", 0, 1200), (0, "other", 1200, 3000))
    assert (0, "launch", 1100, 1350) in parts(later, computing=model, operators=[*model, *metric], cells=cells)
    # operators that another thread runs may take longer
    threaded = parts(cut, computing=model, operators=[*model, *metric], cells=cells, beside=True)
    assert threaded[-1] == (0, "launch", 1100, 3000)


def test_before_a_wait_in_which_nothing_computes_the_script_launched_nothing():
    cut = phases((0, "other", 0, 1000), (0, "sync", 1000, 1100), (0, "other", 1100, 2000), (1, "data", 2000, 3000))
    seen = {"operators": [(0, 10)], "computing": [(0, 10)], "cells": [(0, 3000, 0, 0)], "beside": True}
    assert parts(cut, **seen) == [
        (0, "computing", 0, 10),
        (0, "host", 10, 1000),
        (0, "sync", 1000, 1100),
        (0, "host", 1100, 2000),
        (1, "data", 2000, 3000),
    ]
    # work that was queued before a short wait may begin after this wait
    short = phases((0, "other", 0, 1000), (0, "data", 1000, 1005), (0, "forward", 1005, 2000))
    assert parts(short, **seen | {"operators": [(0, 10), (1060, 2000)]})[1] == (0, "launch", 10, 1000)
    # a wait in another burst of steps says nothing about the end of this one
    bursts = phases((0, "other", 0, 1000), (9, "data", 2000, 3000))
    assert parts(bursts, **seen)[1] == (0, "launch", 10, 1000)
    two = phases((0, "other", 0, 1000), (0, "data", 1000, 1100), (9, "data", 2000, 3000))
    assert parts(two, **seen)[1] == (0, "host", 10, 1000)
    # a callback reads values in 30 us each, and works with them; the next kernel comes long after that
    reads = phases((0, "other", 0, 1000), (0, "sync", 1000, 1030), (0, "other", 1030, 2000), (0, "data", 2000, 2040))
    late = seen | {"operators": [(0, 10), (2200, 2300)], "computing": [(0, 10), (2200, 2300)]}
    called = pl.concat([reads, phases((0, "compute (graph)", 2040, 2300))])
    assert [part for _, part, _, _ in parts(called, **late)] == [
        *("computing", "host", "sync", "host", "data", "launch", "computing")
    ]
    # a kernel that runs during the read was launched before the read
    seen |= {"operators": [(0, 10), (1020, 1030)], "computing": [(0, 10), (1020, 1030)]}
    assert parts(cut, **seen)[:3] == [(0, "computing", 0, 10), (0, "launch", 10, 1000), (0, "sync", 1000, 1020)]


def test_without_operators_nothing_is_known_of_launches():
    cut = phases((0, "other", 0, 10), (0, "forward", 10, 40), (1, "checkpoint", 40, 50), (1, "compile", 50, 60))
    assert parts(cut, computing=[(10, 40)], operators=None) == [
        (0, "unknown", 0, 10),
        (0, "computing", 10, 40),
        (1, "checkpoint", 40, 50),
        (1, "compile", 50, 60),
    ]


def test_a_thread_off_its_processor_is_asleep_or_waits_for_one_and_launches_nothing():
    cut = phases((0, "forward", 0, 40_000))
    # Between two operators the thread spends 30 ms: 20 ms off the processor, of which it waits 5 ms for a free one, and
    # then 10 ms on a processor. Its second operator takes 2 ms.
    found = parts(
        cut,
        operators=[(0, 10), (30_010, 32_000), (34_000, 40_000)],
        cells=[(0, 10, 0, 0), (10, 30_010, 20_000, 5000), (30_010, 34_000, 0, 0), (34_000, 40_000, 0, 0)],
    )
    assert found == [
        (0, "launch", 0, 10),
        (0, "blocked", 10, 15_010),
        (0, "runnable", 15_010, 20_010),
        (0, "host", 20_010, 30_010),
        (0, "launch", 30_010, 32_000),
        (0, "host", 32_000, 34_000),
        (0, "launch", 34_000, 40_000),
    ]


def test_a_wait_for_data_is_one_although_the_thread_waits_for_a_processor_in_it():
    cut = phases((0, "data", 0, 10_000), (0, "checkpoint", 10_000, 20_000), (0, "other", 20_000, 20_010))
    cells = [(0, 10_000, 6000, 4000), (10_000, 20_000, 10_000, 0)]
    assert parts(cut, operators=[(20_000, 20_010)], cells=cells) == [
        (0, "data", 0, 10_000),
        (0, "checkpoint", 10_000, 20_000),
        (0, "launch", 20_000, 20_010),
    ]


def test_off_processor_time_is_divided_among_the_events_of_its_interval():
    cut = phases((0, "other", 0, 1000))
    found = parts(cut, operators=[(0, 100), (500, 600)], cells=[(0, 1000, 400, 0)])
    assert sum(end - start for _, part, start, end in found if part == "blocked") == pytest.approx(400, abs=2)
    short = phases((0, "other", 0, 500))
    assert parts(short, operators=[(0, 100), (250, 350)], cells=[(0, 500, 10, 0)]) == [(0, "launch", 0, 500)]


def test_off_processor_time_without_a_known_reason_is_unknown():
    cut = phases((0, "other", 0, 20_000))
    assert parts(cut, cells=[(0, 20_000, 15_000, None)]) == [(0, "unknown", 0, 15_000), (0, "host", 15_000, 20_000)]


def test_the_framework_may_block_the_thread_whose_operators_run_beside_it_but_not_for_long():
    cut = phases((0, "backward", 0, 10_000), (0, "forward", 10_000, 20_000))
    # Until 4 ms, other threads may launch the next operator. Then no operator begins for 15 ms.
    found = parts(
        cut,
        operators=[(0, 1), (4000, 4001), (19_000, 20_000)],
        cells=[(0, 4000, 4000, 0), (4001, 19_000, 14_999, 0)],
        beside=True,
    )
    assert found == [(0, "launch", 0, 4001), (0, "blocked", 4001, 19_000), (0, "launch", 19_000, 20_000)]


def test_garbage_collection_counts_in_every_phase():
    cut = phases((0, "data", 0, 100), (0, "other", 100, 200))
    assert parts(cut, collecting=[(50, 150)], computing=[(140, 160)], operators=[(140, 160)]) == [
        (0, "data", 0, 50),
        (0, "garbage collection", 50, 140),
        (0, "computing", 140, 160),
        (0, "launch", 160, 200),
    ]


def test_parts_add_up_to_the_steps_and_shares_to_one():
    cut = phases((0, "data", 0, 60), (0, "forward", 60, 100), (1, "forward", 100, 140))
    found = bounds.parts(cut, spans((60, 90), (100, 140)), spans(), spans(), spans((60, 90), (100, 140)))
    times = bounds.by_step(found)
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
