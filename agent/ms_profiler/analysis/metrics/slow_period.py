"""Find a period of consecutive steps that take longer than the steps before it and after it."""

import statistics
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics import blocks, extra_phase
from ms_profiler.analysis.metrics.steps import Steps, milliseconds

#: a step of the period takes at least this many times as long as the other steps (medians)
TIMES: Final = 1.5
#: smallest number of steps of the period, and of the steps before it and after it
LEAST: Final = 16
#: smallest part of the time of all steps
PART: Final = 0.05
#: at least this part of the period's steps is long; and at most this part of the other steps
OFTEN: Final = 0.8
RARE: Final = 0.1
#: another period of long steps has at most this part of the period's steps; otherwise the job is slow again and again
AGAIN: Final = 0.25


def summary(
    steps: Steps, spans: pl.DataFrame, looks: pl.DataFrame | None = None, names: pl.Series | None = None
) -> dict[str, Any] | None:
    """Return the period in which steps took longer; None without one.

    Args:
        steps: the steps in use.
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        looks: the samples of threads, with the columns of `tables.LOOKS`; None if unknown.
        names: texts by row; None if the names of operators do not matter.

    Returns:
        `first` and `last` (numbers of steps), `ms` and `others_ms` (medians of the steps in the period, and of the
        others), `share` (of the time of all steps), and where most of the difference lies (`extra_phase.where`).
    """
    rows = period(steps.table)
    if rows is None:
        return None
    first, last = rows
    inside = pl.int_range(pl.len()).is_between(first, last)
    table = steps.table.with_columns(inside=inside)
    lengths = [table.filter(side)["duration_ns"].to_list() for side in (pl.col("inside"), ~pl.col("inside"))]
    return {
        "first": int(table["number"][first]),
        "last": int(table["number"][last]),
        "ms": milliseconds(statistics.median(lengths[0])),
        "others_ms": milliseconds(statistics.median(lengths[1])),
        "share": round(sum(lengths[0]) / sum(lengths[0] + lengths[1]), 6),
        **extra_phase.where(steps, table["inside"], spans, looks, names),
    }


def period(table: pl.DataFrame) -> tuple[int, int] | None:
    """Return the first and the last row of the period; None without one.

    Records make a step longer. So each length is divided by the median length of the steps with the same `content`.

    Args:
        table: the table of `Steps`.
    """
    if table.height < 3 * LEAST:
        return None
    usual = pl.col("duration_ns").median().over("content")
    lengths = table.select(pl.col("duration_ns") / pl.max_horizontal(usual, 1.0)).to_series().to_list()
    limit = TIMES**0.5
    for _ in range(2):  # the second time, the limit is the middle between both kinds of steps
        first, last = blocks.dense(pl.Series(lengths) >= limit, OFTEN)
        inside, others = lengths[first : last + 1], lengths[:first] + lengths[last + 1 :]
        if len(inside) < LEAST or min(first, len(lengths) - 1 - last) < LEAST:
            return None
        ratio = statistics.median(inside) / (statistics.median(others) or 1.0)
        if ratio < TIMES:
            return None
        limit = statistics.median(others) * ratio**0.5
    long = [length >= limit for length in lengths]
    rest = [*long[:first], *([False] * len(inside)), *long[last + 1 :]]
    again, end = blocks.dense(pl.Series(rest), OFTEN)
    beside = (long[first - LEAST : first], long[last + 1 : last + 1 + LEAST])
    if sum(rest) > RARE * len(others) or end - again + 1 > AGAIN * len(inside):
        return None
    if any(sum(side) > LEAST // 2 for side in beside):
        return None
    took = table["duration_ns"].to_list()
    return (first, last) if sum(took[first : last + 1]) >= PART * sum(took) else None
