"""The operators that a script calls outside of the model are named: those it calls itself, and often."""

import polars as pl
from ms_profiler.analysis.metrics import launch_counts
from ms_profiler.analysis.metrics.phases import OTHER

NAMES = pl.Series(["aten::mul", "aten::copy_", "aten::item", "aten::addmm"])


def test_operators_outside_of_the_model_are_named_by_how_often_the_script_calls_them():
    cut = pl.DataFrame({"phase": ["forward", OTHER], "start_ns": [0, 1_000], "end_ns": [1_000, 2_000]})
    model = [(3, at, at + 10) for at in range(0, 1_000, 10)]
    script = [call for at in range(1_000, 1_400, 20) for call in ((0, at, at + 10), (1, at + 2, at + 9))]
    rows = [*model, *script, *((1, at, at + 5) for at in range(1_400, 1_500, 10)), (2, 1_900, 1_905)]
    ran = pl.DataFrame(rows, schema={"name": pl.UInt32, "start_ns": pl.Int64, "end_ns": pl.Int64}, orient="row")
    # 20 multiplications, each with a copy inside; 10 copies; one read is too rare to be named
    assert launch_counts.outside(ran, NAMES, cut)[0] == ("aten::mul", "aten::copy_")
    assert launch_counts.outside(ran.head(len(model)), NAMES, cut) == ((), 0)
