"""Each record of operands is assigned to its span by order and time."""

import polars as pl
import pytest
from ms_profiler.analysis.readers import operand_windows
from ms_profiler.store.format import Category

OP, MARKER = int(Category.OP), int(Category.MARKER)
NOTES = pl.Schema(
    {
        "window": pl.Int64,
        "native_tid": pl.UInt64,
        "name": pl.UInt32,
        "category": pl.UInt8,
        "time_ns": pl.Int64,
        "arg": pl.UInt64,
    }
)
SPANS = pl.Schema({"thread": pl.UInt32, "name": pl.UInt32, "category": pl.UInt8, "start_ns": pl.Int64})
THREADS = pl.DataFrame(
    {"thread": [1, 2], "native_tid": [71, 72]}, schema={"thread": pl.UInt32, "native_tid": pl.UInt64}
)


def matched(notes, spans):
    """Return the argument that each span gets.

    Args:
        notes: (name, category, time) of each note on thread 71; their arguments are 100, 101, ...
        spans: (name, start) of each span on thread 1.
    """
    records = [(0, 71, name, category, time, 100 + row) for row, (name, category, time) in enumerate(notes)]
    frame = pl.DataFrame([(1, name, OP, start) for name, start in spans], SPANS, orient="row")
    found = operand_windows.match(pl.DataFrame(records, NOTES, orient="row"), frame, THREADS)
    by_span = {(name, start): known for _, start, name, known in found.rows()}
    return [by_span.get(span) for span in spans]


def test_order_counts_where_clocks_differ():
    # the spans have one name, 1 us apart, and the clock of the records is 400 ns late
    spans = [(5, 1000 * row) for row in range(50)]
    assert matched([(5, OP, 1000 * row + 400) for row in range(50)], spans) == list(range(100, 150))


def test_the_first_and_last_of_a_busy_thread_may_be_missing_on_either_side():
    spans = [(row % 3, 1000 * row) for row in range(30)]
    notes = [(row % 3, OP, 1000 * row + 300) for row in range(4, 26)]
    assert matched(notes, spans) == [None] * 4 + list(range(100, 122)) + [None] * 4
    notes = [(row % 3, OP, 1000 * row + 300) for row in range(-3, 33)]
    assert matched(notes, spans) == list(range(103, 133))


def test_regions_that_only_kineto_knows_are_passed_over():
    spans = [(1, 1000), (2, 3000), (1, 5000)]
    notes = [(1, OP, 1000), (9, MARKER, 2000), (2, OP, 3000), (1, OP, 5000)]
    assert matched(notes, spans) == [100, 102, 103]


@pytest.mark.parametrize("notes", [[], [(1, OP, 1000), (7, OP, 3000), (1, OP, 5000)]])
def test_a_contradiction_gives_no_operands(notes):
    assert matched(notes, [(1, 1000), (2, 3000), (1, 5000)]) == [None] * 3


def test_threads_are_kept_apart():
    notes = pl.DataFrame(
        [(0, 71, 1, OP, 1000, 100), (0, 72, 1, OP, 1000, 200), (0, 99, 1, OP, 1000, 300)], NOTES, orient="row"
    )
    spans = pl.DataFrame([(1, 1, OP, 1000), (2, 1, OP, 1000)], SPANS, orient="row")
    assert sorted(operand_windows.match(notes, spans, THREADS).rows()) == [(1, 1000, 1, 100), (2, 1000, 1, 200)]


def test_operators_between_two_windows_are_in_neither():
    rows = [(0, 71, 1, OP, 1000, 100), (0, 71, 2, OP, 3000, 101), (1, 71, 1, OP, 9000, 102), (1, 71, 4, OP, 11000, 103)]
    spans = [(1, 1, OP, 1000), (1, 2, OP, 3000), (1, 3, OP, 5000), (1, 1, OP, 9000), (1, 4, OP, 11000)]
    found = operand_windows.match(
        pl.DataFrame(rows, NOTES, orient="row"), pl.DataFrame(spans, SPANS, orient="row"), THREADS
    )
    assert found["known"].to_list() == [100, 101, 102, 103]
