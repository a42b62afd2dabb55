"""Steps that exchange the same gradients in each of their backward passes are found, and other steps are not."""

import polars as pl
import pytest
from ms_profiler.analysis.metrics import exchanged_passes
from ms_profiler.analysis.metrics.exchanged_passes import Exchanged
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.store.format import Category, StepSource

STEPS = 5
GRADIENTS = 1000


def look(passes, sent, gradients=GRADIENTS, steps=STEPS):
    """Return what is found in steps of 100 ns with `passes` backward passes that exchange the sizes `sent`."""
    spans = [
        (7, 1, int(Category.BACKWARD), 1, 100 * step + 10 * place, 100 * step + 10 * place + 5)
        for step in range(steps)
        for place in range(passes)
    ]
    schema = ("process", "thread", "category", "name", "start_ns", "end_ns")
    table = pl.DataFrame(spans, schema=schema, orient="row")
    known = pl.DataFrame({"start_ns": [100 * step for step in range(steps)]}).with_columns(
        end_ns=pl.col("start_ns") + 100
    )
    rows = [(step, "AllReduce", "0", size) for step in range(steps) for size in sent]
    columns = {"step": pl.UInt32, "operation": pl.String, "group": pl.String, "bytes": pl.Int64}
    calls = pl.DataFrame(rows, schema=columns, orient="row").with_row_index("number")
    used = Steps(7, 1, StepSource.OPTIMIZER_CYCLE, known)
    return exchanged_passes.found(gradients, used, list(range(steps)), table, calls)


@pytest.mark.parametrize(
    ("passes", "sent", "expected"),
    [
        (4, [600, 400] * 4, Exchanged(4, 1000)),
        (2, [300, 200] * 2, Exchanged(2, 500)),  # a hook that sends half of the bytes
        (4, [600, 400], None),  # only the last pass exchanges them
        (1, [600, 400], None),
        (2, [600, 400, 1000], None),  # two networks, each with a pass of its own
        (4, [4] * 4, None),  # the script exchanges a loss in each pass
    ],
)
def test_passes_that_exchange_the_same(passes, sent, expected):
    assert look(passes, sent) == expected


def test_gradients_of_unknown_size_are_no_finding():
    assert look(4, [600, 400] * 4, gradients=0) is None
