"""Steps that exchange the same gradients in each of their backward passes are found, and other steps are not."""

import polars as pl
import pytest
from ms_profiler.analysis.metrics import exchanged_passes
from ms_profiler.analysis.metrics.exchanged_passes import Exchanged
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.store.format import Category, StepSource

STEPS = 5
GRADIENTS = 1000


def look(passes, sent, gradients=GRADIENTS, steps=STEPS, region="aten::mm", operation="AllReduce", later=0):
    """Return what is found in steps of 100 ns with `passes` backward passes that exchange the sizes `sent`.

    A pass takes 5 of 10 ns. The exchanges are spread over the passes. Each second one begins `later` ns later.
    """
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
    rows = [
        (step, operation, "0", size, 100 * step + 10 * (place * passes // len(sent)) + 2 + later * (place % 2))
        for step in range(steps)
        for place, size in enumerate(sent)
    ]
    columns = {"step": pl.UInt32, "operation": pl.String, "group": pl.String, "bytes": pl.Int64, "start_ns": pl.Int64}
    calls = pl.DataFrame(rows, schema=columns, orient="row").with_row_index("number")
    used = Steps(7, 1, StepSource.OPTIMIZER_CYCLE, known)
    return exchanged_passes.found(gradients, used, list(range(steps)), table, calls, pl.Series([None, region]))


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


@pytest.mark.parametrize(
    ("passes", "sent", "expected"),
    [
        (4, [600, 400] * 4, Exchanged(4, 1000, True)),
        (4, [250] * 16, Exchanged(4, 1000, True)),
        (4, [250, 250, 250, 250, 500, 500, 500, 500], None),  # other gradients in each pass
        (1, [600, 400], None),
    ],
)
@pytest.mark.parametrize("region", ["FSDP::post_backward_reduce (0)", "FullyShardedDataParallel._post_backward_hook"])
def test_passes_that_exchange_the_same_shards(passes, sent, expected, region):
    assert look(passes, sent, 0, region=region, operation="ReduceScatter") == expected
    assert look(passes, sent, 0, operation="ReduceScatter") is None, "no parameters are sharded"
    assert look(passes, sent, 0, region=region, operation="ReduceScatter", later=4) is None, "of forward passes, too"


def test_layers_of_one_size_that_are_exchanged_in_one_pass_are_no_finding():
    """The last of four passes exchanges the gradients of 16 equal layers."""
    spans = [(7, 1, int(Category.BACKWARD), 1, 10 * place, 10 * place + 5) for place in range(4)]
    table = pl.DataFrame(spans, ("process", "thread", "category", "name", "start_ns", "end_ns"), orient="row")
    known = pl.DataFrame({"start_ns": [0], "end_ns": [100]})
    rows = [(number, 0, "ReduceScatter", "0", 250, 31) for number in range(16)]
    schema = ("number", "step", "operation", "group", "bytes", "start_ns")
    calls = pl.DataFrame(rows, schema, orient="row").cast({"step": pl.UInt32})
    used = Steps(7, 1, StepSource.OPTIMIZER_CYCLE, known)
    names = pl.Series(["FSDP::post_backward (0)"])
    assert exchanged_passes.found(0, used, [0], table, calls, names) is None


def test_gradients_of_unknown_size_are_no_finding():
    assert look(4, [600, 400] * 4, gradients=0) is None
