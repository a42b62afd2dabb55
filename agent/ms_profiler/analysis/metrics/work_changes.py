"""Find the sampled step from which on modules execute another number of operators.

On a processor that other programs disturb, the lengths of steps show no small change, and neither do the times of the
modules. But numbers of operators do not depend on the processor at all. If a module executes five operators in each
step, and ten in each step from some step on, its work has changed for certain.
"""

import math
import statistics
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import polars as pl

from ms_profiler.analysis.metrics import count_series
from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.metrics.scopes import Part
from ms_profiler.analysis.metrics.steps import Steps, milliseconds, stepping
from ms_profiler.store.format import Category

#: Smallest number of steps on either side of a change; and of steps of a burst, if only some steps are sampled. With a
#: budget of 0.2 %, a run of 20,000 short steps may end with one burst of four steps after a change.
SIDE: Final = 8
BURST: Final = 4
#: number of the job's first steps that tell nothing of modules: modules and optimizers create tensors in them
SETTLED: Final = 3
#: largest number of sampled steps that are searched; those between two of them are searched after a change is found
MOST: Final = 512
#: largest number of sampled steps on either side that tell the time of a module
NEAR: Final = 64
#: number of steps with the same records on either side whose medians are stated, if they agree with the modules' times
LENGTHS: Final = 512
#: the change of these medians is between these multiples of the change of the modules' own times
AGREES: Final = (0.5, 4.0)
#: smallest part of the shortest step before the change that the changed modules gain or lose
LEAST: Final = 0.01
#: the median times of the modules tell the same change as those of the fastest steps if they differ up to this factor
ALIKE: Final = 2.0
#: largest number of modules that are named; and the smallest part of the largest change that each of them makes up
NAMED: Final = 3
WORTH: Final = 0.2


class _Moved(NamedTuple):
    """A module that executes another number of operators than before.

    Attributes:
        owner: the module.
        counts: the number of its operators in a step before the change, and after it.
        times_ns: its own time in a step before the change, and after it at the speed before it.
    """

    owner: str
    counts: tuple[int, int]
    times_ns: tuple[float, float]

    @property
    def gain_ns(self) -> float:
        """Return by how much its own time in a step changed, ns."""
        return self.times_ns[1] - self.times_ns[0]

    def stated(self) -> dict[str, Any]:
        """Return the module in the form of `shift`."""
        return {
            "module": self.owner,
            "before_ms": milliseconds(self.times_ns[0]),
            "after_ms": milliseconds(self.times_ns[1]),
            "count_before": self.counts[0],
            "count_after": self.counts[1],
        }


def shift(
    same: pl.DataFrame,
    steps: Steps,
    found: Ownership | None,
    spans: pl.DataFrame,
    tasks: pl.DataFrame | None = None,
    kernels: Ownership | None = None,
) -> dict[str, Any] | None:
    """Return a lasting change of the numbers of operators, in the form of `shifts.shift`; None without one.

    Args:
        same: steps with the same records.
        steps: the steps in use.
        found: the owners of the time of sampled steps; None if no module is known.
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        tasks: the number of a device's tasks in each step, sampled or not: `step`, `count`. None if unknown.
        kernels: the owners of the device's time, if `found` has the times of the host.

    Returns:
        The items of `shifts.shift`; `before_ms` and `after_ms` are None if the lengths of the steps do not show the
        change. `after_step` is the last step before the change, and `step` the first one after it, of the sampled
        steps, or of all steps if `tasks` tell the change. `together` is 0 if they do. Otherwise it is the number of
        sampled steps after the change, or before it, if all of them follow each other; or else 0. `counted` is
        "operators" or "kernels". Each of the `modules` has `count_before` and `count_after` as well. `more` is the
        number of further modules.
    """
    if found is None or same.is_empty():
        return None
    table = steps.table.with_row_index("step")
    known = table[SETTLED:].filter(pl.col("step").is_in(found.pieces["step"].unique().implode()))["step"]
    searched = known.gather_every(math.ceil(known.len() / MOST) or 1)
    if searched.len() < 2 * SIDE:
        return None
    operators = _operators(found, steps, spans)
    counts = _counts(found, operators, searched)
    side = SIDE if _in_a_row(known.to_list()) else BURST
    places, unsteady = _places(counts, searched.len(), side)
    place = _main(places, found, searched)
    if place is None:
        return None
    changed = [owner for owner, at in places.items() if abs(at - place) <= 1]
    numbers = _numbers(counts, changed, place, searched.len())
    place = _refined(changed, found, operators, known, searched[place - 1 : place + 1])
    sides = known[max(place - NEAR, 0) : place], known[place : place + NEAR]
    middle, least = (
        _times(found, sides, changed, unsteady | set(places), how) for how in (pl.Expr.median, pl.Expr.min)
    )
    moved = _credible(_moved(middle, numbers), _moved(least, numbers))
    gain_ns = sum(each.gain_ns for each in moved)
    # Other programs lengthen most steps of a busy machine, but hardly the shortest one. A large recording has the
    # owners of some sampled steps only, many of them the slowest ones.
    around = table.filter(pl.col("step").is_between(sides[0][0], sides[0][-1]), "recorded")
    shortest_ns = min(around["duration_ns"].to_list())
    if found.basis == "kernels":
        certain = _certain(changed, counts, searched.len(), side)
        moved = [each for each in moved if each.owner in certain and each.gain_ns * gain_ns > 0]
    if not moved or not gain_ns or abs(gain_ns) < LEAST * shortest_ns:
        return None
    before, after = _told(tasks, kernels or found, changed, sides) or (int(sides[0][-1]), int(sides[1][0]))
    told = after < int(sides[1][0]) or before > int(sides[0][-1])
    last, first = table[before], table[after]
    lengths_ns = _lengths(same, int(last["start_ns"][0]), int(first["start_ns"][0]), gain_ns)
    worth = [each for each in moved if abs(each.gain_ns) >= WORTH * abs(moved[0].gain_ns)][:NAMED]
    return {
        "after_step": int(last["number"][0]),
        "step": int(first["number"][0]),
        "earliest": int(table["number"][before + 1]),
        "latest": int(first["number"][0]),
        "before_ms": None if lengths_ns is None else milliseconds(lengths_ns[0]),
        "after_ms": None if lengths_ns is None else milliseconds(lengths_ns[1]),
        "statistic": f"medians of up to {LENGTHS} steps before and after",
        "together": 0 if told else _together(known, place),
        "counted": "kernels" if found.basis == "kernels" else "operators",
        "more": len(moved) - len(worth),
        "modules": [each.stated() for each in worth],
    }


def _told(
    tasks: pl.DataFrame | None, kernels: Ownership, changed: list[str], sides: tuple[pl.Series, pl.Series]
) -> tuple[int, int] | None:
    """Return the last step before a change and the first one after it, as a device's tasks tell them; None if unknown.

    Between two sampled steps, the last step with the usual number of tasks before the change is before it. The first
    step with the usual number of tasks after the change is after it. The tasks of the changed modules have to explain
    the difference of these numbers.

    Args:
        tasks: the number of tasks in each step.
        kernels: the owners of the tasks.
        changed: the owners that changed.
        sides: the sampled steps before the change and after it.
    """
    if tasks is None or tasks.is_empty() or kernels.basis != "kernels":
        return None
    counts: dict[int, int] = dict(tasks.select("step", "count").iter_rows())
    own = kernels.pieces.filter(pl.col("owner").is_in(changed)).group_by("step").len()
    owned: dict[int, int] = dict(own.iter_rows())
    kept = set(kernels.pieces["step"].unique())  # the tasks of other steps have no owners, but they are counted
    known = [[step for step in side if step in kept] for side in sides]
    if not all(known):
        return None
    usual = [statistics.mode(counts.get(step, 0) for step in side) for side in sides]
    theirs = [statistics.mode(owned.get(step, 0) for step in side) for side in known]
    if theirs[1] - theirs[0] != usual[1] - usual[0]:
        return None
    between = range(int(sides[0][-1]), int(sides[1][0]) + 1)
    before, after = ([step for step in between if counts.get(step, 0) == count] for count in usual)
    return (before[-1], after[0]) if before and after and before[-1] < after[0] else None


def _moved(times_ns: dict[str, tuple[float, float]], numbers: dict[str, tuple[int, int]]) -> list[_Moved]:
    """Return the modules that explain a longer or shorter step, the largest change first.

    A module that executes more operators and takes less time explains no longer step.

    Args:
        times_ns: the times of each module before the change and after it, from `_times`.
        numbers: its numbers of operators, from `_numbers`.
    """
    every = [_Moved(owner, numbers[owner], own) for owner, own in times_ns.items()]
    moved = [each for each in every if each.gain_ns * (each.counts[1] - each.counts[0]) > 0]
    return sorted(moved, key=lambda each: (-abs(each.gain_ns), each.owner))


def _credible(usual: list[_Moved], fastest: list[_Moved]) -> list[_Moved]:
    """Return the modules with their usual times; with those of their fastest steps where the two tell other changes.

    Where other programs use the processor, a median contains waits, which may be longer before the change or after it.

    Args:
        usual: the modules with their median times.
        fastest: the modules with the times of their fastest steps.
    """
    gains = [sum(each.gain_ns for each in moved) for moved in (usual, fastest)]
    if not fastest or (gains[1] and 1 / ALIKE <= gains[0] / gains[1] <= ALIKE):
        return usual
    return fastest


def _lengths(same: pl.DataFrame, last_ns: int, first_ns: int, gain_ns: float) -> tuple[float, float] | None:
    """Return the median lengths of steps before a change and after it, ns; None if they do not show the change.

    Args:
        same: steps with the same records.
        last_ns: the start of the last step before the change, ns.
        first_ns: the start of the first step after it, ns.
        gain_ns: by how much the modules' own times in a step change, ns.
    """
    start = pl.col("start_ns")
    sides = (
        same.filter(start <= last_ns)["duration_ns"].tail(LENGTHS),
        same.filter(start >= first_ns)["duration_ns"].head(LENGTHS),
    )
    if min(map(len, sides)) < SIDE:
        return None
    before, after = (float(statistics.median(side.to_list())) for side in sides)
    return (before, after) if AGREES[0] <= (after - before) / gain_ns <= AGREES[1] else None


def _together(known: pl.Series, place: int) -> int:
    """Return the number of sampled steps on a side of the change that has only one burst of them; 0 without one."""
    steps = known.to_list()
    if _in_a_row(steps):  # all steps are recorded
        return 0
    return min((len(side) for side in (steps[:place], steps[place:]) if _in_a_row(side)), default=0)


def _in_a_row(steps: list[int]) -> bool:
    """Return whether all of these steps, which are sorted, follow each other."""
    return len(steps) == steps[-1] - steps[0] + 1


def _operators(found: Ownership, steps: Steps, spans: pl.DataFrame) -> pl.Series:
    """Return the starts of the stepping thread's operators, in ns, sorted; none if the pieces are kernels."""
    if found.basis == "kernels":
        return pl.Series(dtype=pl.Int64)
    return stepping(spans, steps, Category.OP)["start_ns"].sort()


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


def _places(counts: pl.DataFrame, whole: int, side: int) -> tuple[dict[str, int], set[str]]:
    """Return the place from which on an owner has another number of operators, and the owners whose numbers vary.

    Args:
        counts: the numbers of operators, from `_counts`.
        whole: the number of steps.
        side: smallest number of steps on either side of a change.
    """
    varies = (pl.len() < whole) | (pl.col("count").min() < pl.col("count").max())
    keys = counts.group_by("owner", "part").agg(pl.col("place", "count"), varies.alias("varies"))
    found: dict[str, int] = {}
    varying: set[str] = set()
    for owner, _, places, values, _ in keys.filter("varies").sort("owner", "part").iter_rows():
        series = count_series.filled(places, values, whole)
        if count_series.is_steady(series, side):
            continue
        at = count_series.jump(series, side)
        if at is None or abs(found.get(owner, at) - at) > 1:
            varying.add(owner)
        else:
            found[owner] = at
    return {owner: at for owner, at in found.items() if owner not in varying}, varying


def _certain(changed: list[str], counts: pl.DataFrame, whole: int, side: int) -> list[str]:
    """Return the owners that changed for certain; all of them if none did.

    The module of a kernel of a backward pass is often inferred. If a module runs more kernels, the kernels of other
    modules may be inferred as those of their parents from then on, and seem to be new. The forward pass tells which
    modules run more kernels.

    Args:
        changed: the owners that seem to have changed.
        counts: the numbers of kernels, from `_counts`.
        whole: the number of steps.
        side: smallest number of steps on either side of a change.
    """
    forward, _ = _places(counts.filter(pl.col("part") == int(Part.FORWARD)), whole, side)
    return [owner for owner in changed if owner in forward] or changed


def _numbers(counts: pl.DataFrame, owners: list[str], place: int, whole: int) -> dict[str, tuple[int, int]]:
    """Return for each owner the usual number of its operators in all parts of a step, before a place and after it."""
    sums = counts.filter(pl.col("owner").is_in(owners)).group_by("owner", "place").agg(pl.col("count").sum())
    found = {}
    for owner, places, values in sums.group_by("owner").agg("place", "count").iter_rows():
        series = count_series.filled(places, values, whole)
        found[owner] = statistics.mode(series[:place]), statistics.mode(series[place:])
    return found


def _refined(changed: list[str], found: Ownership, operators: pl.Series, known: pl.Series, bounds: pl.Series) -> int:
    """Return the place of the first step after a change among all sampled steps.

    Args:
        changed: the owners that changed.
        found: the owners.
        operators: the starts of the operators, from `_operators`.
        known: all sampled steps.
        bounds: the last step before the change and the first one after it, of those that were searched.
    """
    first, last = (int(known.search_sorted(step)) for step in bounds)
    counts = _counts(found, operators, known[first : last + 1]).filter(pl.col("owner").is_in(changed))
    sums = dict(counts.group_by("place").agg(pl.col("count").sum()).iter_rows())
    before, after = sums.get(0, 0), sums.get(last - first, 0)
    near = (abs(sums.get(place, 0) - after) < abs(sums.get(place, 0) - before) for place in range(last - first + 1))
    return first + next((place for place, passed in enumerate(near) if passed), last - first)


def _main(places: dict[str, int], found: Ownership, searched: pl.Series) -> int | None:
    """Return the place of the change whose modules take most time; None without a change."""
    if not places:
        return None
    steps = found.by_step.filter(pl.col("step").is_in(searched.implode()))
    took = dict(steps.group_by("owner").agg(pl.col("self_ns").sum()).iter_rows())
    sums: dict[int, int] = {}
    for owner, at in places.items():
        sums[at] = sums.get(at, 0) + took.get(owner, 0)
    return max(sums, key=lambda at: (sums[at], -at))


def _times(
    found: Ownership,
    sides: tuple[pl.Series, pl.Series],
    owners: list[str],
    others: set[str],
    how: Callable[[pl.Expr], pl.Expr],
) -> dict[str, tuple[float, float]]:
    """Return the time of owners in a step before the change and after it, ns, both at the processor's speed before it.

    The processor's speed changed by the median of (time after / time before) of the modules whose work is the same. An
    owner without records in most steps takes no time.

    Args:
        found: the owners of the time.
        sides: the sampled steps before the change and after it.
        owners: the owners whose times are returned.
        others: the owners that do not tell the processor's speed, because their work varies.
        how: which of the times in the steps of a side counts: their median, or the shortest one.
    """
    chosen: list[dict[str, float]] = []
    for side in sides:
        own = found.by_step.filter(pl.col("step").is_in(side.implode()))
        missing = side.len() - pl.len()
        times = pl.col("self_ns").extend_constant(0, missing) if how is pl.Expr.median else pl.col("self_ns")
        taken = pl.when(missing <= side.len() / 2).then(how(times)).otherwise(0)
        chosen.append(dict(own.group_by("owner").agg(taken.cast(pl.Float64)).iter_rows()))
    before, after = chosen
    ratios = [after[owner] / time for owner, time in before.items() if owner not in others and time and owner in after]
    speed = (statistics.median(ratios) if ratios else 1.0) or 1.0
    return {owner: (before.get(owner, 0.0), after.get(owner, 0.0) / speed) for owner in owners}
