"""If several runs share a store, each run gets the events and steps of its own time."""

import polars as pl
import pytest
from ms_profiler.analysis.columns.slots import SLOTS
from ms_profiler.analysis.readers.window import Window, work
from ms_profiler.store.format import Category, Flag, Kind, StepSource
from ms_profiler.store.run_info import RunInfo

LOOP = int(StepSource.FRAMEWORK_LOOP)


def table(rows, kind):
    """Return slots from rows (start, end, arg)."""
    filled = [(start, end, arg, 1, int(kind), LOOP, 0, 1) for start, end, arg in rows]
    return pl.DataFrame(filled, schema=SLOTS, orient="row")


def spans_of(starts, category=Category.OP):
    """Return spans that begin at the given times."""
    return pl.DataFrame({"start_ns": starts}).with_columns(category=pl.lit(int(category), pl.UInt8))


def steps(window, marks, spans):
    """Return (number, start, end) of the steps of a window."""
    found = window.steps(table(marks, Kind.STEP), work(spans_of(spans)))
    return found.select("arg", "start_ns", "end_ns").rows()


MARKS = [(0, 100, 0), (100, 200, 1), (200, 300, 2), (300, 400, 3)]
EVEN = list(range(5, 400, 10))  # ten spans in each step


def test_a_run_that_has_the_store_for_itself_keeps_everything():
    assert Window.of(RunInfo()) == Window()
    assert steps(Window(), MARKS, EVEN) == [(number, start, end) for start, end, number in MARKS]
    events = table([(0, 10, 0)], Kind.SPAN)
    assert Window().cut(events).equals(events)


def test_events_belong_to_the_run_in_which_they_began():
    events = table([(90, 110, 0), (100, 150, 0), (190, 260, 0), (200, 210, 0)], Kind.SPAN)
    cut = Window(start_ns=100, end_ns=200).cut(events)
    assert cut.select("start_ns", "end_ns").rows() == [(100, 150), (190, 200)]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        # the run begins just after a step's begin and ends just before a step's end, as from a callback
        (Window(start_ns=104, end_ns=297), [(1, 104, 200), (2, 200, 297)]),
        # the run begins near a step's end and ends just after another's begin; these two steps are left out
        (Window(start_ns=185, end_ns=310), [(2, 200, 300)]),
        # the run has no complete step, so its fullest step shows the usual number of spans
        (Window(start_ns=205, end_ns=310), [(2, 205, 300)]),
        # the script counts its steps from 1
        (Window(start_ns=100, end_ns=300, shift=1), [(2, 100, 200), (3, 200, 300)]),
        # step 4 still ran when the run ended, and has no spans
        (Window(start_ns=300, end_ns=490, step=4, step_ns=400, source=LOOP), [(3, 300, 400)]),
    ],
)
def test_steps_are_cut_and_stay_if_half_of_a_usual_one_is_left(window, expected):
    assert steps(window, MARKS, EVEN) == expected


def test_the_step_that_runs_at_the_end_counts_with_its_spans():
    window = Window(start_ns=300, end_ns=490, step=4, step_ns=400, source=LOOP)
    assert steps(window, MARKS, [*EVEN, *range(405, 490, 10)]) == [(3, 300, 400), (4, 400, 490)]


def test_our_work_after_the_last_step_is_no_step():
    window = Window(start_ns=250, end_ns=490, step=4, step_ns=400, source=LOOP)
    found = window.steps(table(MARKS[2:3], Kind.STEP), work(spans_of([410], Category.PROFILER), pl.Series(EVEN)))
    assert found["arg"].to_list() == [2]


def test_a_step_that_another_run_left_out_belongs_to_this_one():
    marks = table(MARKS, Kind.STEP).with_columns(flags=pl.lit(int(Flag.UNRECORDED), pl.UInt8))
    found = Window(start_ns=100, end_ns=300).steps(marks, work(spans_of(EVEN)))
    assert found["flags"].to_list() == [0, 0]
