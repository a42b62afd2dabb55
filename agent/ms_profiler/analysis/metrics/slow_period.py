"""Find a period of consecutive steps that take longer than the steps before it and after it.

With two workers of a data loader, every second step of such a period may wait, because both workers end their batches
at about the same time. So a group of steps counts as long, too, if at least two of its steps are. Other programs on the
machine may have the same effect, so such a period is stated only if its steps wait for something.
"""

import statistics
from typing import Any, Final, NamedTuple

import polars as pl

from ms_profiler.analysis.metrics import blocks, bounds, extra_phase
from ms_profiler.analysis.metrics.phases import NAMES
from ms_profiler.analysis.metrics.steps import Steps, milliseconds
from ms_profiler.store.format import Category

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
#: Steps of usual length may differ by more than the square root of `TIMES`, for example on a busy machine. Then steps
#: of at least this many times `TIMES` are sought at first.
CLEARLY: Final = 2.0
#: number of steps of a group
GROUP: Final = 8
#: smallest number of groups of the period, and of the groups before it and after it
LEAST_GROUPS: Final = 4
#: a long step of a group takes at least this many times as long as the other steps
TIMES_GROUPS: Final = 2.0
#: phases in which such steps may wait for something
WAITS: Final = {NAMES[category] for category in (Category.DATA, Category.COMMUNICATION, Category.CHECKPOINT)}


class Period(NamedTuple):
    """The first and the last row of the period; `long` tells for each row whether it is long, None if all of it is."""

    first: int
    last: int
    long: list[bool] | None


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
        `first` and `last` (numbers of steps), `long` (how many of these steps take longer; None for all of them), `ms`
        and `others_ms` (medians of the longer steps in the period, and of the steps outside of it), `share` (of the
        time of all steps), and where most of the difference lies (`extra_phase.where`).
    """
    found = period(steps.table)
    if found is None:
        return None
    table = steps.table.with_columns(inside=pl.int_range(pl.len()).is_between(found.first, found.last))
    long = table["inside"] if found.long is None else table["inside"] & pl.Series(found.long)
    # the other steps in the period are not compared
    compared = table.select(pl.when(~pl.col("inside") | long).then(long)).to_series()
    lengths = [table.filter(side)["duration_ns"].to_list() for side in (long, ~table["inside"])]
    took, place = table["duration_ns"].to_list(), extra_phase.where(steps, compared, spans, looks, names)
    if found.long is not None and place["outside"] != bounds.BLOCKED and place["phase"] not in WAITS:
        return None
    return {
        "first": int(table["number"][found.first]),
        "last": int(table["number"][found.last]),
        "long": None if found.long is None else int(long.sum()),
        "ms": milliseconds(statistics.median(lengths[0])),
        "others_ms": milliseconds(statistics.median(lengths[1])),
        "share": round(sum(took[found.first : found.last + 1]) / sum(took), 6),
        **place,
    }


def period(table: pl.DataFrame) -> Period | None:
    """Return the period; None without one.

    Records make a step longer. So each length is divided by the median length of the steps with the same `content`, and
    there have to be such steps before and after the period: if all steps before it were sampled and those after a
    lasting change are not, steps between them only seem to be longer.

    Args:
        table: the table of `Steps`.
    """
    found = _found(table) if table.height >= 3 * LEAST else None
    if found is None:
        return None
    content = table["content"][found.first : found.last + 1].mode().sort()[0]
    beside = table["content"][: found.first], table["content"][found.last + 1 :]
    return found if all((side == content).sum() >= LEAST for side in beside) else None


def _found(table: pl.DataFrame) -> Period | None:
    """Return the period as the relative lengths of steps show it; None without one."""
    usual = pl.col("duration_ns").median().over("content")
    lengths = table.select(pl.col("duration_ns") / pl.max_horizontal(usual, 1.0)).to_series().to_list()
    took = table["duration_ns"].to_list()
    if rows := _dense(lengths, LEAST, TIMES):
        return Period(*rows[:2], None) if sum(took[rows[0] : rows[1] + 1]) >= PART * sum(took) else None
    second = [sorted(lengths[at : at + GROUP])[-2] for at in range(0, len(lengths) - GROUP + 1, GROUP)]
    groups = _dense(second, LEAST_GROUPS, TIMES_GROUPS)
    if groups is None:
        return None
    long = [length >= groups[2] for length in lengths]
    first = long.index(True, groups[0] * GROUP)
    last = max(row for row in range(first, (groups[1] + 1) * GROUP) if long[row])
    spent = [ns for ns, is_long in zip(took[first : last + 1], long[first : last + 1], strict=True) if is_long]
    return Period(first, last, long) if sum(spent) >= PART * sum(took) else None


def _dense(lengths: list[float], least: int, times: float) -> tuple[int, int, float] | None:
    """Return the first and the last index of the long values that follow each other, and their limit; None without any.

    Args:
        lengths: the values; 1 is usual.
        least: the smallest number of values of the period, and of the values before it and after it.
        times: how many times as long as the others the values of the period have to be at least (medians).
    """
    return _period(lengths, least, times, times**0.5) or _period(lengths, least, times, CLEARLY * times)


def _period(lengths: list[float], least: int, times: float, limit: float) -> tuple[int, int, float] | None:
    """Return the same as `_dense`; `limit` tells at first from which length on a value is long."""
    for _ in range(2):  # the second time, the limit is the middle between both kinds of steps
        first, last = blocks.dense(pl.Series(lengths) >= limit, OFTEN)
        inside, others = lengths[first : last + 1], lengths[:first] + lengths[last + 1 :]
        if len(inside) < least or min(first, len(lengths) - 1 - last) < least:
            return None
        ratio = statistics.median(inside) / (statistics.median(others) or 1.0)
        if ratio < times:
            return None
        limit = statistics.median(others) * ratio**0.5
    long = [length >= limit for length in lengths]
    rest = [*long[:first], *([False] * len(inside)), *long[last + 1 :]]
    again, end = blocks.dense(pl.Series(rest), OFTEN)
    beside = (long[first - least : first], long[last + 1 : last + 1 + least])
    if sum(rest) > RARE * len(others) or end - again + 1 > AGAIN * len(inside):
        return None
    return None if any(sum(side) > least // 2 for side in beside) else (first, last, limit)
