"""What is known of a thread from looks at its processor time: worked out by hand, in microseconds."""

import polars as pl
import pytest
from microseconds import US, shown
from ms_profiler.analysis.metrics import scheduling
from ms_profiler.analysis.model import tables


def cells(*rows):
    """Return the cells of a thread of looks: (time, event before, ran, waited)."""
    scaled = [(1, 1, *(None if value is None else value * US for value in row)) for row in rows]
    return scheduling.cells(pl.DataFrame(scaled, schema=tables.LOOKS, orient="row"), 1, 1)


def test_time_off_the_processor_lies_in_the_gap_and_before_it_only_where_that_is_too_short():
    found = cells((1000, 1000, 500, None), (3000, 2000, 1600, 100), (6000, 5500, 2600, 1000))
    assert shown(found) == [
        (1000, 2000, 0, 0),
        (2000, 3000, 900, 100),
        (3000, 5500, 1500, 750),
        (5500, 6000, 500, 250),
    ]


def test_a_wait_told_late_is_shared_out_by_what_was_off():
    found = cells((0, 0, 0, None), (1000, 0, 0, None), (4000, 1000, 0, 2000), (5000, 4000, 1000, None))
    assert shown(found) == [(0, 1000, 1000, 500), (1000, 4000, 3000, 1500), (4000, 5000, 0, 0)]


def test_without_a_word_of_the_system_nobody_knows_what_a_thread_waited_for():
    assert shown(cells((0, 0, 0, None), (1000, 0, 400, None))) == [(0, 1000, 600, None)]
    assert cells((0, 0, 0, None)).is_empty() and cells().is_empty()


def test_the_part_of_steps_that_waited_for_a_processor():
    during = pl.DataFrame({"start_ns": [0], "end_ns": [10_000 * US]})
    known = cells((0, 0, 0, None), (5000, 0, 1000, 2000), (15_000, 5000, 6000, 4000))
    # the second gap lies half in the step
    assert scheduling.queued(known, during) == pytest.approx(0.4)
    assert scheduling.queued(known.head(0), during) == 0.0
