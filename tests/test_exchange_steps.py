"""Ranks that exchange in some steps only: the parts of the steps before count for the step with the exchange."""

from types import SimpleNamespace

import polars as pl
from ms_profiler.analysis.cluster import exchange_steps, late_causes, lateness
from ms_profiler.analysis.cluster.rank_account import PARTS
from ms_profiler.analysis.metrics import bounds, stretches

MS, EACH = 1_000_000, 8


def account(rank, computing, examined, count=32):
    """Return a rank that exchanges in each eighth step, computes for some ms in each step, and has gaps of 1 ms."""
    steps = pl.DataFrame({"step": range(count), "own_ns": 0}).with_columns(
        pl.when(pl.col("step") % EACH == EACH - 1).then(pl.col("own_ns")).alias("own_ns")
    )
    rows = [(step, bounds.COMPUTING, computing * MS) for step in examined]
    rows += [(step, stretches.BETWEEN, MS) for step in range(count)]
    parts = pl.DataFrame(rows, PARTS, orient="row")
    return SimpleNamespace(rank=rank, steps=steps.with_columns(exchange_ns=pl.col("own_ns")), parts=parts)


def test_parts_of_some_steps_stand_for_all_steps_up_to_the_exchange():
    table = exchange_steps.gathered({0: account(0, 10, [1, 2, *range(16, 24), 31])})
    rows = {(step, part): (ns // MS, examined) for _, step, part, ns, steps, examined in table.select(
        "rank", "step", "part", "duration_ns", "steps", "examined").rows()}  # fmt: skip
    assert rows == {
        (7, bounds.COMPUTING): (80, 2),
        (7, stretches.BETWEEN): (8, 2),
        (15, stretches.BETWEEN): (8, 0),
        (23, bounds.COMPUTING): (80, 8),
        (23, stretches.BETWEEN): (8, 8),
        (31, bounds.COMPUTING): (80, 1),
        (31, stretches.BETWEEN): (8, 1),
    }
    assert set(table["steps"]) == {EACH}


def test_the_cause_of_lateness_is_right_though_ranks_examined_other_steps_before_an_exchange():
    """Rank 1 computes twice as long. Rank 0 examined few of its steps; its parts would be too small to be compared."""
    ranks = {0: account(0, 10, [*range(8, 10), 16]), 1: account(1, 20, range(8, 32)), 2: account(2, 10, range(32))}
    late = lateness.Late(1, 4 * EACH * 10 * MS, 0.5, 4, 0, 80 * MS, 2)
    (found,) = late_causes.causes(exchange_steps.gathered(ranks), [late], steps=4).values()
    assert (found.kind, found.excess_ns, found.examined) == (bounds.COMPUTING, 4 * EACH * 10 * MS, 24)
