"""Find threads that train beside the stepping thread. Their work is in no step, so the figures of steps lack it."""

from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.cycles import RESETS
from ms_profiler.analysis.metrics.steps import Steps, milliseconds
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category

#: a thread trains if it has at least this number of recorded steps of optimizers
LEAST: Final = 3
#: what a thread does that trains
_TRAINING: Final = (int(Category.FORWARD), int(Category.BACKWARD), int(Category.OPTIMIZER))


def summary(recording: tables.Recording, spans: pl.DataFrame, used: Steps) -> list[dict[str, Any]]:
    """Return the threads of the stepping process that train, too, the longest time first.

    Args:
        recording: the run.
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        used: the steps in use.

    Returns:
        For each thread: `thread` (its name), `native_tid`, `updates` (number of recorded steps of optimizers), and `ms`
        (recorded time in forward, backward and optimizer). If steps were sampled, the last two may lack some.
    """
    own = spans.filter(
        pl.col("process") == used.process, pl.col("thread") != used.thread, pl.col("category").is_in(_TRAINING)
    )
    rows = [
        (used.process, thread, _updates(part, recording.names), intervals.total_ns(intervals.union(part)))
        for (thread,), part in own.group_by("thread")
    ]
    columns = {"process": pl.UInt32, "thread": pl.UInt32, "updates": pl.UInt32, "ns": pl.Int64}
    sums = pl.DataFrame(rows, schema=columns, orient="row").filter(pl.col("updates") >= LEAST)
    known = sums.join(recording.threads, on=["process", "thread"], how="left")
    return [
        {
            "thread": row["thread_name"] or f"thread {row['native_tid']}",
            "native_tid": row["native_tid"],
            "updates": row["updates"],
            "ms": milliseconds(row["ns"]),
        }
        for row in known.sort("ns", "thread", descending=[True, False]).iter_rows(named=True)
    ]


def _updates(spans: pl.DataFrame, names: pl.Series) -> int:
    """Return the number of steps of optimizers among the spans of a thread; a step inside of another one is none."""
    chosen = pl.col("category") == int(Category.OPTIMIZER), ~names.str.ends_with(RESETS).gather(spans["name"])
    steps = spans.filter(*chosen).sort("start_ns", "end_ns", descending=[False, True])
    return steps.filter((pl.col("start_ns") >= pl.col("end_ns").cum_max().shift(1)).fill_null(True)).height
