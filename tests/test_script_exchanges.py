"""An exchange that the script calls between the passes is found if it takes much of the communication."""

import polars as pl
import pytest
from ms_profiler.analysis.metrics import bounds, script_exchanges
from ms_profiler.analysis.metrics.script_exchanges import Called
from ms_profiler.store.format import Category

STEPS = 4
CALLS = {"step": pl.UInt32, "operation": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64}
PIECES = {"step": pl.UInt32, "part": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64}


def look(*exchanges, exposed=((0, 40), (60, 100)), every=1):
    """Return what is found in steps of 100 ns: forward until 30, backward from 30 to 60, then the script's own code.

    Args:
        exchanges: operation, begin and end of each exchange of a step, ns from the begin of the step.
        exposed: begin and end of the communication that does not overlap with computing.
        every: one in this number of steps has these exchanges.
    """
    passes = [(Category.FORWARD, 0, 30), (Category.BACKWARD, 30, 60)]
    spans = [(int(kind), 100 * step + at, 100 * step + end) for step in range(STEPS) for kind, at, end in passes]
    calls = [
        (step, name, 100 * step + at, 100 * step + end)
        for step in range(0, STEPS, every)
        for name, at, end in exchanges
    ]
    pieces = [
        (step, bounds.COMMUNICATION, 100 * step + at, 100 * step + end) for step in range(STEPS) for at, end in exposed
    ]
    own = pl.DataFrame(spans, schema=("category", "start_ns", "end_ns"), orient="row")
    tables = [pl.DataFrame(rows, schema=schema, orient="row") for rows, schema in ((calls, CALLS), (pieces, PIECES))]
    return script_exchanges.found(tables[0], own, tables[1], list(range(STEPS)))


@pytest.mark.parametrize(
    ("exchanges", "expected"),
    [
        ([("AllGather", 60, 70), ("AllGather", 70, 100)], Called("AllGather", 0.5, 2.0)),
        ([("AllGather", 60, 70), ("Broadcast", 70, 100)], Called("Broadcast", 0.375, 1.0)),
        ([("AllGather", 60, 90), ("AllGather", 70, 100)], Called("AllGather", 0.5, 2.0)),  # at the same time
        ([("AllGather", 60, 70)], None),  # an eighth of the communication
        ([("AllGather", 10, 30), ("AllGather", 35, 55)], None),  # parameters that are sharded
        ([("AllReduce", 60, 100)], None),  # the script's own exchange of gradients
        ([("Receive", 60, 100)], None),  # a stage of a pipeline
        ([], None),
    ],
)
def test_exchanges_of_the_script(exchanges, expected):
    assert look(*exchanges) == expected


def test_calls_in_few_steps_are_counted_per_step():
    assert look(("AllGather", 60, 100), exposed=[(60, 100)], every=2) == Called("AllGather", 0.5, 0.5)
    assert look(("AllGather", 60, 100), exposed=[]) is None
