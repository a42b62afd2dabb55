"""Traced calls of a run with more calls than are held in memory: the longest calls, with their true ends."""

import polars as pl
import pytest
from ms_profiler.analysis.columns.slots import SLOTS
from ms_profiler.analysis.readers import call_slots
from ms_profiler.store.format import Kind

COLUMNS = "start_ns", "end_ns", "id"
#: A call of a millisecond. Two short calls in it were written when they began, and again when they ended.
OUTER, SHORT = (0, 1_000_000, 1), [(1000, 1100, 2), (2000, 2200, 2)]
#: a call that still ran when the process ended
RUNNING = (3000, 0, 3)


def slots(*rows):
    """Return slots of calls, each with its start and end in ns and the number of its name."""
    table = pl.DataFrame(rows, schema=dict.fromkeys(COLUMNS, pl.Int64), orient="row")
    others = [pl.lit(int(Kind.CALL)).alias("kind")]
    others += [pl.lit(0).alias(name) for name in SLOTS if name not in (*COLUMNS, "kind")]
    return table.with_columns(others).select(pl.col(name).cast(kind) for name, kind in SLOTS.items())


@pytest.mark.parametrize("parts", [1, 2], ids=["ends in the same part", "ends in a later part"])
def test_a_short_call_that_is_left_out_does_not_run_until_the_end(monkeypatch, parts):
    monkeypatch.setattr(call_slots, "MOST", 3)
    opened = [(start, 0, name) for start, _, name in SHORT]
    many = [(at, at + 10, 4) for at in range(5000, 5100, 20)]
    calls = call_slots.Calls()
    for part in ([[*many, *opened, RUNNING, *SHORT, OUTER]], [[*many, *opened, RUNNING], [*SHORT, OUTER]])[parts - 1]:
        calls.take(slots(*part))
    table = pl.concat([*calls.parts, calls.open])
    assert sorted(table.select(COLUMNS).rows()) == [OUTER, RUNNING]
    assert calls.left_out == len(many) + len(SHORT)
