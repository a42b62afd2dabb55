"""Move the begin of a step behind a rollout, an evaluation or a warm-up that ran before the step.

A step begins where the previous step ended. So calls of a network between two steps at first belong to the later step.
If most steps begin with the same number of calls without gradients, these calls belong to the step; they are, for
example, calls of a teacher or of a target network. If a step begins with more calls than that, the additional calls do
not belong to the step. They are, for example, an evaluation that no hook reported. The step then begins after the
additional calls.

In the record of the first step, the work before the first work with gradients may be missing. If most steps begin with
calls without gradients, the begin of the first step is moved so that it has the same number of these calls.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.store.format import Category, Flag

#: steps are changed only if at least this share of them begins with the same number of calls
MOST: Final = 0.5
_CALLS: Final = (int(Category.FORWARD), int(Category.GRAPH))
_APART: Final = pl.col("flags") & int(Flag.NO_GRADIENTS) != 0


def cut(table: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Move the begin of steps behind those calls of a network that do not belong to the steps.

    Calls without gradients can be cut off from all steps. Calls with gradients are cut off only from the first step,
    and only if all other steps have the same number of calls. If the numbers of calls differ, they may depend on the
    data.

    Args:
        table: table of steps, with the columns of `tables.STEPS`, sorted by start, without overlap.
        spans: spans of the stepping thread, with the columns of `tables.SPANS`.
    """
    others = (int(Category.BACKWARD), int(Category.OPTIMIZER), int(Category.DATA))
    coarse = spans.filter(pl.col("category").is_in([*_CALLS, *others]))
    gradients = coarse.filter(pl.col("category") == int(Category.BACKWARD))
    calls = coarse.filter(pl.col("category").is_in(_CALLS))
    apart = intervals.union(calls.filter(_APART))
    own = calls.filter(~_APART, intervals.locate(calls["start_ns"], apart).is_null())  # a call may contain a graph
    if not apart.is_empty():
        table = _cut(table, coarse, apart, pl.concat([own, gradients]), MOST, table.height)
    if not gradients.is_empty():
        table = _cut(table, coarse, intervals.union(calls), gradients, 1.0, 1)
    return table


def _cut(
    table: pl.DataFrame, spans: pl.DataFrame, calls: pl.DataFrame, work: pl.DataFrame, agreeing: float, first: int
) -> pl.DataFrame:
    """Cut surplus calls off the begin of steps. A step has surplus calls if it begins with more calls than usual.

    Args:
        table: the steps.
        spans: the spans with which a step may begin.
        calls: the calls that may not belong to a step.
        work: the spans that certainly belong to a step.
        agreeing: share of the steps that must have the same number of calls; 1 means all steps from row `first` on.
        first: number of steps at the begin of the table that may be cut.
    """
    rows = table.with_row_index("row")
    begun = _begins(rows, work).group_by("row").agg(pl.col("time_ns").min().alias("work_ns"))
    leading = (
        calls.select("start_ns", "end_ns", row=intervals.locate(calls["start_ns"], table))
        .drop_nulls("row")
        .join(begun, on="row")
        .filter(pl.col("start_ns") < pl.col("work_ns"))
        .sort("start_ns")
    )
    counts = rows.join(begun, on="row").join(leading.group_by("row").len("count"), on="row", how="left")
    counts = counts.select("row", "recorded", pl.col("count").fill_null(0)).filter("recorded").sort("row")
    others = counts if agreeing < 1 else counts.filter(pl.col("row") >= first)
    if others.height < 2:
        return table
    usual, number = others.group_by("count").len().sort("len", "count", descending=[True, False]).row(0)
    if number < agreeing * others.height:
        return table
    if agreeing < 1 and counts["row"][0] == 0:
        table = _reached(table, calls, usual - counts["count"][0])
        rows = table.with_row_index("row")
    after = (
        leading.filter(pl.col("row") < first)
        .with_columns(left=pl.len().over("row") - pl.int_range(pl.len()).over("row"))
        .filter(pl.col("left") > usual)
        .group_by("row")
        .agg(pl.col("end_ns").max().alias("after_ns"))
    )
    if after.is_empty():
        return table
    starts = _begins(rows, spans).join(after, on="row").filter(pl.col("time_ns") >= pl.col("after_ns"))
    starts = starts.group_by("row").agg(pl.col("time_ns").min().alias("begin_ns"))
    moved = rows.join(starts, on="row", how="left", maintain_order="left")
    return moved.with_columns(start_ns=pl.coalesce("begin_ns", "start_ns")).select(table.columns)


def _reached(table: pl.DataFrame, calls: pl.DataFrame, missing: int) -> pl.DataFrame:
    """Move the begin of the first step back to earlier calls, if it has fewer calls than the other steps.

    Args:
        table: the steps.
        calls: the calls.
        missing: number of calls that the first step lacks.
    """
    before = calls.filter(pl.col("end_ns") <= table["start_ns"][0]).sort("start_ns")
    if not 0 < missing <= before.height:
        return table
    start = before["start_ns"][-missing]
    return table.with_columns(
        start_ns=pl.when(pl.int_range(pl.len()) == 0).then(start).otherwise("start_ns").cast(table.schema["start_ns"])
    )


def _begins(rows: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Return the start of each span that lies in a step: `row` (of the step), `time_ns`."""
    times = spans["start_ns"]
    return pl.DataFrame({"row": intervals.locate(times, rows), "time_ns": times}).drop_nulls("row")
