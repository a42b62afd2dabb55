"""Find a lasting change of the step time that is small, because only a few small modules changed.

A step of a model with 20 layers becomes 3 or 4 % longer if one of the layers takes twice as long. On a shared
processor, the lengths of steps alone do not show this. But the time of this layer changes far more than the times of
the other modules, which the processor's speed affects alike.

A wrong module costs more trust than a missed change. So the rules are strict: the module itself must take longer or
shorter, no other one may, or all of them clearly at the same step, and the lengths of the steps must agree. The lengths
of unsampled steps show a change only while the processor's speed stays the same. Those of sampled steps are compared
with the times of the modules in the same steps.
"""

import math
import statistics
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import polars as pl

from ms_profiler.analysis.metrics import blocks, change_range, phases
from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.metrics.steps import Steps, milliseconds

#: Largest number of consecutive sampled steps in a group. Steps of one burst are disturbed together, so the median of a
#: burst is one value.
GROUP: Final = 8
#: The change of a module counts if it is at least `CLEAR * spread` of the groups' medians on either side. Linear growth
#: has the ratio 4.
CLEAR: Final = 6.0
#: smallest factor by which a module's time changes, and smallest part of a step that all changed modules gain or lose
FACTOR: Final = 1.25
LEAST: Final = 0.01
#: smallest number of modules: their median movement tells the processor's speed; and largest part that may change
MODULES: Final = 5
CHANGED: Final = 0.4
#: More than `FEW` modules may change only by a factor of at least `LARGE` each; so may modules of which the lengths of
#: unsampled steps show nothing.
FEW: Final = 2
LARGE: Final = 1.8
#: largest number of modules that are named
NAMED: Final = 3
#: a module is left out if its change is less than this part of the largest change of a module
WORTH: Final = 0.2
#: a module is examined only if at least this part of the sampled steps contains it
USUAL: Final = 0.9
#: number of the job's first steps that are not examined, because they differ from the others
SETTLED: Final = 64
#: smallest number of groups
GROUPS: Final = 12
#: number of unsampled steps on either side whose lengths must show the change, and number of them in a block
NEAR: Final = 512
BLOCK: Final = 32
#: The lengths show a change of at least `SHOWN * spread`. It is between `AGREES` times the change of the modules' own
#: time. The upper factor is large: not all of the work that a module causes is known to be its work. If all of the
#: modules change by `LARGE`, it is enough that the lengths of sampled steps differ by less than that from this change.
SHOWN: Final = 1.5
AGREES: Final = (0.5, 4.0)
#: the lengths of unsampled steps and of sampled steps tell the same change if they differ up to this factor
LIKE: Final = 2.0
#: begins the names of the phases `phases.ASIDE`, whose times are compared with those of the modules
PHASE: Final = "phase "
_ASIDE: Final = {PHASE + phase: phase for phase in phases.ASIDE}


class _Moved(NamedTuple):
    """A module or phase whose time changed.

    Attributes:
        owner: the module, or a key of `_ASIDE`.
        group: the number of groups of sampled steps before the change.
        before_ns: the median of its times in a step before the change.
        log: the logarithm of the factor by which its time changed, compared with the other modules.
    """

    owner: str
    group: int
    before_ns: float
    log: float

    @property
    def gain_ns(self) -> float:
        """Return by how much its time in a step changed, ns."""
        return self.before_ns * math.expm1(self.log)

    def times_ms(self) -> dict[str, float]:
        """Return its time in a step before the change and after it, milliseconds."""
        return {"before_ms": milliseconds(self.before_ns), "after_ms": milliseconds(self.before_ns + self.gain_ns)}


class _Lengths(NamedTuple):
    """Logarithms of the lengths of steps: the medians before a change and after it, and the larger spread."""

    before: float
    after: float
    spread: float

    @classmethod
    def of(cls, sides: list[list[float]]) -> "_Lengths":
        """Return the medians and the larger spread of the values of two sides."""
        before, after = map(statistics.median, sides)
        return cls(before, after, max(blocks.misfit(side) / len(side) for side in sides))

    @property
    def change(self) -> float:
        """Return by how much the logarithm changed."""
        return self.after - self.before

    def show(self, gain_ns: float) -> bool:
        """Return whether the lengths show a change of the modules' own time by `gain_ns`."""
        seen_ns = math.exp(self.before) * math.expm1(self.change)
        return AGREES[0] <= seen_ns / gain_ns <= AGREES[1] and abs(self.change) >= SHOWN * self.spread

    def fit(self, gain_ns: float) -> bool:
        """Return whether a change of the modules' own time by `gain_ns` is not excluded by the lengths."""
        return abs(self.change - math.log1p(gain_ns / math.exp(self.before))) <= SHOWN * self.spread


def shift(same: pl.DataFrame, steps: Steps, found: Ownership | None, spans: pl.DataFrame) -> dict[str, Any] | None:
    """Return a small lasting change of the steps' length, as `shifts.shift` does; None without one.

    Args:
        same: steps with the same records, at least one.
        steps: the steps in use.
        found: the owners of the time of sampled steps; None if no module is known.
        spans: table of the run's spans, with the columns of `tables.SPANS`.

    Returns:
        The items of `shifts.shift`; `before_ms` and `after_ms` are None if only the times of modules and phases show
        the change. `more` is the number of further modules. `phases`, if any of `phases.ASIDE` changed: a list of
        `phase`, `before_ms` and `after_ms`.
    """
    if found is None or found.basis != "host":
        return None
    sampled = _grouped(steps, found)
    if sampled["group"].n_unique() < GROUPS:
        return None
    times = _times(sampled, found.by_step, steps, spans)
    first = _moved(_relative(times))
    if not first:
        return None
    # several modules that change raise the median movement a little, so only the others tell the speed in the end
    relative = _relative(times, [each.owner for each in first])
    moved = sorted(_moved(relative), key=lambda each: -abs(each.gain_ns))
    moved = [each for each in moved if abs(each.gain_ns) >= WORTH * abs(moved[0].gain_ns)]
    large = all(abs(each.log) >= math.log(LARGE) for each in moved)
    most = CHANGED * times["owner"].n_unique() if large else FEW
    if not 0 < len(moved) <= most:
        return None
    place = moved[0].group
    if any(abs(each.group - place) > 1 or each.log * moved[0].log < 0 for each in moved):
        return None
    gain_ns = sum(each.gain_ns for each in moved)
    lengths = _lengths(sampled, relative, place)
    if abs(gain_ns) < LEAST * math.exp(lengths.before) or -gain_ns >= math.exp(lengths.before):
        return None
    told = _of_lengths(same, steps, sampled, place, gain_ns, lengths)
    if told is None and large and (lengths.show(gain_ns) or lengths.fit(gain_ns)):
        told = _of_modules(steps, sampled, times, relative, moved)
    if told is None:
        return None
    named, aside = ([each for each in moved if (each.owner in _ASIDE) is side] for side in (False, True))
    return {
        **told,
        "statistic": f"lower quartiles of up to {NEAR} steps before and after",
        "more": len(named[NAMED:]),
        "modules": [{"module": each.owner, **each.times_ms()} for each in named[:NAMED]],
        **({"phases": [{"phase": _ASIDE[each.owner], **each.times_ms()} for each in aside]} if aside else {}),
    }


def _lengths(sampled: pl.DataFrame, relative: pl.DataFrame, place: int) -> _Lengths:
    """Return the lengths of sampled steps before a change and after it, at the same speed of the processor.

    Args:
        sampled: the sampled steps, from `_grouped`.
        relative: the times of the modules, from `_relative`.
        place: the number of groups before the change.
    """
    length = pl.col("duration_ns").clip(1).cast(pl.Float64).log().median()
    lengths = sampled.group_by("group").agg(length=length).join(_speeds(relative), on="group").sort("group")
    logs = lengths["length"] - lengths["speed"]
    return _Lengths.of([logs[:place].to_list(), logs[place:].to_list()])


def _of_lengths(
    same: pl.DataFrame, steps: Steps, sampled: pl.DataFrame, place: int, gain_ns: float, lengths: _Lengths
) -> dict[str, Any] | None:
    """Return the place of a change and the lengths of a step before and after it; None if they do not show the change.

    Args:
        same: steps with the same records.
        steps: the steps in use.
        sampled: the sampled steps, from `_grouped`.
        place: the number of groups of sampled steps before the change.
        gain_ns: by how much the modules' own time in a step changed, ns.
        lengths: the lengths of sampled steps, from `_lengths`.
    """
    # the change is between the last sampled step before it and the first one after it
    bounds = [sampled.filter(side)["start_ns"] for side in (pl.col("group") < place, pl.col("group") >= place)]
    first, last = (int(same["start_ns"].search_sorted(at)) for at in (bounds[0][-1], bounds[1][0]))
    logs = same["duration_ns"].clip(1).cast(pl.Float64).log()
    before, after = logs[max(first - NEAR, 0) : first], logs[last : last + NEAR]
    sides = [blocks.quartiles(side.to_list(), BLOCK) for side in (before, after)]
    if min(map(len, sides)) < blocks.SIDE:
        return None
    found = _Lengths.of(sides)
    if abs(gain_ns) < LEAST * math.exp(found.before) or not found.show(gain_ns):
        return None
    # the speed of the processor may have changed by more than the work
    if lengths.show(gain_ns) and not 1 / LIKE <= found.change / lengths.change <= LIKE:
        return None
    # the steps of the two groups themselves may lie on either side
    earlier, following = sampled.filter(group=place - 1), sampled.filter(group=place)
    row = first + BLOCK * blocks.jump(blocks.quartiles(logs[first:last].to_list(), BLOCK), found.before, found.after)
    moment = int(same["start_ns"][min(row, same.height - 1)])
    found_at = change_range.of_lengths(steps, moment, (int(earlier["step"][0]) + 1, int(following["step"][-1])))
    return {
        **change_range.numbers(steps, found_at),
        "before_ms": milliseconds(math.exp(found.before)),
        "after_ms": milliseconds(math.exp(found.after)),
    }


def _of_modules(
    steps: Steps, sampled: pl.DataFrame, times: pl.DataFrame, relative: pl.DataFrame, moved: list[_Moved]
) -> dict[str, Any]:
    """Return the place of a change that only the modules' times show. It lies in two groups of sampled steps.

    Args:
        steps: the steps in use.
        sampled: the sampled steps, from `_grouped`.
        times: the times of the modules in these steps, from `_times`.
        relative: the same by group, from `_relative`.
        moved: the modules that changed.
    """
    own = times.filter(pl.col("owner").is_in([each.owner for each in moved]))
    sums = own.group_by("step", "group").agg(pl.col("self_ns").sum().log().alias("log")).sort("step")
    values = sums.join(_speeds(relative), on="group", maintain_order="left").select(pl.col("log") - pl.col("speed"))
    groups, numbers, place = sums["group"], sums["step"], moved[0].group
    first, at, last = (int(groups.search_sorted(group)) for group in (place - 1, place, place + 1))
    found = change_range.find(values.to_series().to_list(), at, (first + 1, last - 1))
    rows = change_range.Range(int(numbers[found.at]), int(numbers[found.first - 1]) + 1, int(numbers[found.last]))
    told = {**change_range.numbers(steps, rows), "before_ms": None, "after_ms": None}
    # the change lies between two sampled steps for certain
    exact = {"after_step": int(steps.table["number"][rows.first - 1])} if found.first == found.last else {}
    return told | exact


def _grouped(steps: Steps, found: Ownership) -> pl.DataFrame:
    """Return the sampled steps after the first `SETTLED` steps whose owners are known, with `group`.

    The owners of a long run are known for a part of its sampled steps only. A group has at most `GROUP` consecutive
    steps. Groups of less than half of the usual size are left out: in a long run, these are single steps that are known
    because they are slow. Groups are merged if there are more than `blocks.MOST`.
    """
    table = steps.table.with_row_index("step")[SETTLED:].select("step", "start_ns", "duration_ns")
    known = table.join(found.by_step, on="step", how="semi", maintain_order="left")
    burst = (pl.col("step").diff() != 1).fill_null(True).cum_sum()
    inside = known.with_columns(burst=burst).with_columns(place=pl.int_range(pl.len()).over("burst") // GROUP)
    size = pl.len().over("burst", "place")
    inside = inside.with_columns(size=size).filter(pl.col("size") >= pl.col("size").median() / 2)
    groups = inside.with_columns(group=pl.struct("burst", "place").rle_id())
    together = math.ceil(int(groups["group"].n_unique()) / blocks.MOST) or 1
    return groups.select("step", "start_ns", "duration_ns", group=pl.col("group") // together)


def _times(sampled: pl.DataFrame, owned: pl.DataFrame, steps: Steps, spans: pl.DataFrame) -> pl.DataFrame:
    """Return the times of the modules, and those of `phases.ASIDE`, that nearly all sampled steps contain.

    Args:
        sampled: the sampled steps, from `_grouped`.
        owned: the time of each owner in each sampled step.
        steps: the steps in use.
        spans: table of the run's spans.

    Returns:
        `step`, `owner` (a key of `_ASIDE` for a phase), `group` and `self_ns`.
    """
    aside = phases.aside(spans, steps).select("step", owner=PHASE + pl.col("phase"), self_ns="self_ns")
    every = pl.concat([owned.select("step", "owner", "self_ns"), aside], how="vertical_relaxed")
    times = every.filter(pl.col("self_ns") > 0).join(sampled, on="step")
    times = times.filter(pl.len().over("owner") >= USUAL * sampled.height)
    everywhere = pl.col("group").n_unique().over("owner") == sampled["group"].n_unique()
    return times.filter(everywhere).select("step", "owner", "group", "self_ns")


def _relative(times: pl.DataFrame, changed: Sequence[str] = ()) -> pl.DataFrame:
    """Return the median time of each module and phase in each group: `owner`, `group`, `log`, `speed` and `own`.

    `log` is its logarithm. `speed` is the median movement of all modules in this group, and `own` is `log - speed`.

    Args:
        times: the times of the modules, from `_times`.
        changed: modules that do not tell the speed, unless there are no others.
    """
    medians = times.group_by("owner", "group").agg(pl.col("self_ns").log().median().alias("log"))
    # one after the other, because Polars computes a window inside of another one for each part of the outer one
    moved = medians.with_columns(moved=pl.col("log") - pl.col("log").median().over("owner"))
    modules = moved.filter(~pl.col("owner").is_in([*_ASIDE]))
    others = modules.filter(~pl.col("owner").is_in(changed))
    speeds = (modules if others.is_empty() else others).group_by("group").agg(speed=pl.col("moved").median())
    relative = medians.join(speeds, on="group")
    return relative.with_columns(own=pl.col("log") - pl.col("speed")).sort("owner", "group")


def _speeds(relative: pl.DataFrame) -> pl.DataFrame:
    """Return `group` and its `speed` from the result of `_relative`."""
    return relative.group_by("group").agg(pl.col("speed").first()).sort("group")


def _moved(relative: pl.DataFrame) -> list[_Moved]:
    """Return the modules and phases whose time changed, compared with the median movement of all modules.

    Args:
        relative: the times of the modules, from `_relative`.
    """
    if relative.filter(~pl.col("owner").is_in([*_ASIDE]))["owner"].n_unique() < MODULES:
        return []
    # most modules vary by less than the smallest change, so they need no search for one
    varies = pl.col("own").max().over("owner") - pl.col("own").min().over("owner")
    moved = []
    for (owner,), table in relative.filter(varies >= math.log(FACTOR)).group_by("owner", maintain_order=True):
        changed = blocks.change(table["own"].to_list(), 1, CLEAR, math.log(FACTOR), GROUPS)
        if changed is None:
            continue
        at, before, after, _ = changed
        sides = [statistics.median(table["log"][part].to_list()) for part in (slice(None, at), slice(at, None))]
        # the time of the module itself has to change, not only that of all other modules
        if (sides[1] - sides[0]) / (after - before) < AGREES[0]:
            continue
        moved.append(_Moved(str(owner), int(table["group"][at]), math.exp(sides[0]), after - before))
    return moved
