"""The text about the heaviest module says so if few steps have most of its time."""

import polars as pl
import pytest
from ms_profiler.analysis.metrics import module_tree, ownership
from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.metrics.scopes import Part
from test_shifts import MS, NO_SPANS, made

NO_CALLS = pl.DataFrame(schema={"module": pl.String, "calls": pl.UInt64})


def text(more, count=40, place="net."):
    """Return the text about four equal modules; `more` returns how many ms more the third one takes in a step."""
    rows = [
        (step, f"{place}{number}", int(Part.FORWARD), 1, MS + MS * more(step) * (number == 2))
        for step in range(count)
        for number in range(4)
    ]
    names = ("step", "owner", "part", "bound", "self_ns")
    sums = pl.DataFrame(rows, schema=names, orient="row").cast({"step": pl.UInt32})
    whole = int(sums["self_ns"].sum())
    no_time = pl.lit(0, pl.Int64)
    pieces = sums.with_columns(start_ns=no_time, end_ns=no_time).clear()
    steps = made([MS] * count)
    found = Ownership("host", count, whole, module_tree.rows(sums, NO_CALLS, whole), sums, pieces, 1)
    spans, steady = NO_SPANS.with_columns(self_ns=no_time), steps.table.with_row_index("row")
    return ownership.heaviest(found, spans, pl.Series([], dtype=pl.String), steps, steady, None, 0.05, False)


@pytest.mark.parametrize(("slow", "half"), [((7,), 1), ((7, 20, 33), 2)])
def test_a_module_that_is_long_in_few_steps_is_named_with_their_number(slow, half):
    """Another program may have used the processor there."""
    found = text(lambda step: 60 * (step in slow))
    assert f"of the step, more than half of it in {half} of 40 examined steps" in found
    assert found.startswith("net.2 takes ")


def test_a_module_that_is_long_in_all_steps_is_named_without_a_number():
    found = text(lambda step: 3)
    assert found.startswith("net.2 takes 57 % of the step")
    assert "examined" not in found


def test_a_module_that_is_a_little_longer_in_one_step_is_named_without_a_number():
    assert "examined" not in text(lambda step: 5 * (step == 7))


def test_a_module_whose_name_is_a_number_is_called_a_module():
    assert text(lambda step: 3, place="").startswith("module 2 takes 57 % of the step")
