"""Find the sampled step from which on modules execute another number of operators.

On a processor that other programs disturb, the lengths of steps show no small change, and neither do the times of the
modules. But numbers of operators do not depend on the processor at all. If a module executes five operators in each
step, and ten in each step from some step on, its work has changed for certain.
"""

import itertools
import math
import statistics
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import polars as pl

from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.metrics.steps import Steps, milliseconds
from ms_profiler.store.format import Category

#: smallest number of sampled steps on either side of a change
SIDE: Final = 8
#: largest part of the sampled steps on either side that may have another number of operators than the other steps there
STRAY: Final = 0.05
#: number of the job's first steps that are not examined: modules and optimizers create tensors in them
SETTLED: Final = 3
#: largest number of sampled steps that are searched; those between two of them are searched after a change is found
MOST: Final = 512
#: largest number of sampled steps on either side that tell the time of a module
NEAR: Final = 64
#: smallest part of a step that the changed modules gain or lose
LEAST: Final = 0.01
#: largest number of modules that are named; and the smallest part of the largest change that each of them makes up
NAMED: Final = 3
WORTH: Final = 0.2


class _Counted(NamedTuple):
    """Numbers of operators of a module in a step: `before` and `after`, and the sampled steps before the change."""

    before: int
    after: int
    at: int


def shift(same: pl.DataFrame, steps: Steps, found: Ownership | None, spans: pl.DataFrame) -> dict[str, Any] | None:
    """Return a lasting change of the numbers of operators, in the form of `shifts.shift`; None without one.

    The time of a module after the change is compared with the time of the modules whose numbers of operators stay the
    same. So it holds for the processor's speed before the change.

    Args:
        same: steps with the same records.
        steps: the steps in use.
        found: the owners of the time of sampled steps; None if no module is known.
        spans: table of the run's spans, with the columns of `tables.SPANS`.

    Returns:
        The items of `shifts.shift`. `after_step` is the last sampled step before the change, and `step` the first one
        after it. Each of the `modules` has `operators_before` and `operators_after` as well.
    """
    if found is None or same.is_empty():
        return None
    table = steps.table.with_row_index("step")
    known = table[SETTLED:].filter(pl.col("step").is_in(found.pieces["step"].unique().implode()))["step"]
    searched = known.gather_every(math.ceil(known.len() / MOST) or 1)
    if searched.len() < 2 * SIDE:
        return None
    operators = _operators(found, steps, spans)
    changed, varying = _changed(_counts(found, operators, searched), searched.len())
    place = _place(changed, found, searched)
    if place is None:
        return None
    changed = {owner: counted for owner, counted in changed.items() if abs(counted.at - place) <= 1}
    place = _refined(changed, found, operators, known, searched[place - 1 : place + 1])
    before, after = known[max(place - NEAR, 0) : place], known[place : place + NEAR]
    modules = _modules(changed, _times(found, before, after, varying | set(changed)))
    length_ms = milliseconds(_length(same, table["start_ns"][before[0]], table["start_ns"][before[-1]]))
    gain_ms = sum(each["after_ms"] - each["before_ms"] for each in modules)
    if not length_ms or abs(gain_ms) < LEAST * length_ms:
        return None
    return {
        "after_step": int(table["number"][before[-1]]),
        "step": int(table["number"][after[0]]),
        "before_ms": length_ms,
        "after_ms": round(length_ms + gain_ms, 6),
        "statistic": "median before, and the same with what the modules add or save",
        "modules": modules,
    }


def _length(same: pl.DataFrame, first_ns: int, last_ns: int) -> float:
    """Return the median length of the steps between two times, ns.

    The processor's speed may change later, so later steps do not count. If all steps between the times are sampled, the
    `NEAR` steps before them count.
    """
    earlier = same.filter(pl.col("start_ns") <= last_ns)
    among = earlier.filter(pl.col("start_ns") >= first_ns)
    return _middle((earlier.tail(NEAR) if among.is_empty() else among)["duration_ns"].to_list())


def _modules(changed: dict[str, _Counted], times: Callable[[str], tuple[float, float]]) -> list[dict[str, Any]]:
    """Return the modules that explain the change of a step, the largest change first, as `shift` does.

    Args:
        changed: the modules that changed.
        times: the result of `_times`.
    """
    rows = [(owner, counted, *times(owner)) for owner, counted in changed.items()]
    # a module that executes more operators and takes less time explains no longer step
    rows = [row for row in rows if (row[3] - row[2]) * (row[1].after - row[1].before) > 0]
    rows.sort(key=lambda row: (-abs(row[3] - row[2]), row[0]))
    return [
        {
            "module": owner,
            "before_ms": milliseconds(before_ns),
            "after_ms": milliseconds(after_ns),
            "operators_before": counted.before,
            "operators_after": counted.after,
        }
        for owner, counted, before_ns, after_ns in rows[:NAMED]
        if abs(after_ns - before_ns) >= WORTH * abs(rows[0][3] - rows[0][2])
    ]


def _operators(found: Ownership, steps: Steps, spans: pl.DataFrame) -> pl.Series:
    """Return the starts of the stepping thread's operators, in ns, sorted; none if the pieces are kernels."""
    if found.basis == "kernels":
        return pl.Series(dtype=pl.Int64)
    own = pl.col("process") == steps.process, pl.col("thread") == steps.thread
    return spans.filter(*own, pl.col("category") == int(Category.OP))["start_ns"].sort()


def _counts(found: Ownership, operators: pl.Series, chosen: pl.Series) -> pl.DataFrame:
    """Return the number of operators of each owner in chosen steps: `place`, `owner`, `part`, `count`.

    Args:
        found: the owners.
        operators: the starts of the operators, from `_operators`.
        chosen: the steps; `place` counts them.
    """
    places = pl.DataFrame({"step": chosen.cast(pl.UInt32), "place": pl.int_range(chosen.len(), eager=True)})
    pieces = found.pieces.drop_nulls("owner").join(places, on="step")
    if found.basis == "kernels":
        counted = pieces.with_columns(count=pl.lit(1, pl.Int64))
    else:
        first, last = (operators.search_sorted(pieces[name]).cast(pl.Int64) for name in ("start_ns", "end_ns"))
        counted = pieces.with_columns(count=last - first)
    return counted.group_by("place", "owner", "part").agg(pl.col("count").sum())


def _changed(counts: pl.DataFrame, whole: int) -> tuple[dict[str, _Counted], set[str]]:
    """Return the owners with another number of operators from one step on, and those whose numbers vary in other ways.

    Args:
        counts: the numbers of operators, from `_counts`.
        whole: the number of steps.
    """
    varies = (pl.len() < whole) | (pl.col("count").min() < pl.col("count").max())
    keys = counts.group_by("owner", "part").agg(pl.col("place", "count"), varies.alias("varies"))
    changed: dict[str, _Counted] = {}
    varying: set[str] = set()
    for owner, _, places, values, _ in keys.filter("varies").sort("owner", "part").iter_rows():
        series = [0] * whole
        for place, value in zip(places, values, strict=True):
            series[place] = value
        if _steady(series):
            continue
        one, other = _jump(series), changed.get(owner)
        if one is None or (other is not None and abs(other.at - one.at) > 1):
            varying.add(owner)
        else:
            before, after = (other.before, other.after) if other else (0, 0)
            changed[owner] = _Counted(before + one.before, after + one.after, one.at)
    return {owner: one for owner, one in changed.items() if one.before != one.after}, varying


def _steady(series: list[int]) -> bool:
    """Return whether nearly all numbers are the same."""
    return series.count(statistics.mode(series)) >= (1 - STRAY) * len(series)


def _jump(series: list[int]) -> _Counted | None:
    """Return the two numbers of a series that has one number up to some place, and another from there on."""
    before, after = statistics.mode(series[:SIDE]), statistics.mode(series[-SIDE:])
    if before == after:
        return None
    # each place: wrong values before it, if all of them should be `before`, and from it on
    wrong = [0, *itertools.accumulate(value != before for value in series)]
    right = [0, *itertools.accumulate(value != after for value in series)]
    at = min(range(len(series) + 1), key=lambda place: wrong[place] + right[-1] - right[place])
    strays = wrong[at], right[-1] - right[at]
    sides = at, len(series) - at
    if min(sides) < SIDE or any(stray > STRAY * side for stray, side in zip(strays, sides, strict=True)):
        return None
    return _Counted(before, after, at)


def _refined(
    changed: dict[str, _Counted], found: Ownership, operators: pl.Series, known: pl.Series, bounds: pl.Series
) -> int:
    """Return the place of the first step after a change among all sampled steps.

    Args:
        changed: the owners that changed.
        found: the owners.
        operators: the starts of the operators, from `_operators`.
        known: all sampled steps.
        bounds: the last step before the change and the first one after it, of those that were searched.
    """
    first, last = (int(known.search_sorted(step)) for step in bounds)
    counts = _counts(found, operators, known[first : last + 1]).filter(pl.col("owner").is_in(list(changed)))
    sums = dict(counts.group_by("place").agg(pl.col("count").sum()).iter_rows())
    before, after = sums.get(0, 0), sums.get(last - first, 0)
    near = (abs(sums.get(place, 0) - after) < abs(sums.get(place, 0) - before) for place in range(last - first + 1))
    return first + next((place for place, passed in enumerate(near) if passed), last - first)


def _place(changed: dict[str, _Counted], found: Ownership, searched: pl.Series) -> int | None:
    """Return the place of the change whose modules take most time; None without a change."""
    if not changed:
        return None
    steps = found.by_step.filter(pl.col("step").is_in(searched.implode()))
    took = dict(steps.group_by("owner").agg(pl.col("self_ns").sum()).iter_rows())
    places: dict[int, int] = {}
    for owner, counted in changed.items():
        places[counted.at] = places.get(counted.at, 0) + took.get(owner, 0)
    return max(places, key=lambda place: (places[place], -place))


def _times(
    found: Ownership, before: pl.Series, after: pl.Series, but: set[str]
) -> Callable[[str], tuple[float, float]]:
    """Return a function: owner -> its time in a step before the change and after it, ns, at the speed before it.

    Args:
        found: the owners of the time.
        before: the sampled steps before the change.
        after: the sampled steps after it.
        but: the owners that do not tell the processor's speed, because their own work varies.
    """
    others = found.by_step.filter(~pl.col("owner").is_in(but)).group_by("step").agg(pl.col("self_ns").sum())
    speed = dict(others.filter(pl.col("self_ns") > 0).iter_rows())
    usual = _middle([speed[step] for step in before if step in speed])

    def times(owner: str) -> tuple[float, float]:
        own = dict(found.by_step.filter(pl.col("owner") == owner).select("step", "self_ns").iter_rows())
        earlier = _middle([own.get(step, 0) for step in before])
        if not usual:
            return earlier, _middle([own.get(step, 0) for step in after])
        return earlier, usual * _middle([own.get(step, 0) / speed[step] for step in after if step in speed])

    return times


def _middle(values: list[Any]) -> float:
    return float(statistics.median(values)) if values else 0.0
