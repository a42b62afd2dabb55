"""Find a lasting change of the step time that is small, because only a few small modules changed.

A step of a model with 20 layers becomes 3 or 4 % longer if one of the layers takes twice as long. On a shared
processor, the lengths of steps alone do not show this. But the time of this layer changes far more than the times of
the other modules, which the processor's speed affects alike.

A wrong module costs more trust than a missed change. So the rules are strict: the module itself must take longer or
shorter, no other one may, and the lengths of the steps around the change must agree.
"""

import math
import statistics
from typing import Any, Final, NamedTuple

import polars as pl

from ms_profiler.analysis.metrics import blocks, change_range
from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.metrics.steps import Steps, milliseconds

#: Largest number of consecutive sampled steps in a group. Steps of one burst are disturbed together, so the median of a
#: burst is one value.
GROUP: Final = 8
#: The change of a module counts if it is at least `CLEAR * spread` of the groups' medians on either side. Linear growth
#: has the ratio 4.
CLEAR: Final = 8.0
#: smallest factor by which a module's time changes, and smallest part of a step that all changed modules gain or lose
FACTOR: Final = 1.25
LEAST: Final = 0.01
#: smallest number of modules: their median movement tells the processor's speed; and largest number that may change
MODULES: Final = 5
CHANGED: Final = 2
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
#: time. The upper factor is large: not all of the work that a module causes is known to be its work.
SHOWN: Final = 1.5
AGREES: Final = (0.5, 4.0)


class _Moved(NamedTuple):
    """A module whose time changed.

    Attributes:
        owner: the module.
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


def shift(same: pl.DataFrame, steps: Steps, found: Ownership | None) -> dict[str, Any] | None:
    """Return a small lasting change of the steps' length, as `shifts.shift` does; None without one.

    Args:
        same: steps with the same records, at least one.
        steps: the steps in use.
        found: the owners of the time of sampled steps; None if no module is known.
    """
    if found is None or found.basis != "host":
        return None
    sampled = _grouped(steps)
    moved = sorted(_moved(sampled, found), key=lambda each: -abs(each.gain_ns))
    moved = [each for each in moved if abs(each.gain_ns) >= WORTH * abs(moved[0].gain_ns)]
    if not 0 < len(moved) <= CHANGED:
        return None
    place = moved[0].group
    if any(abs(each.group - place) > 1 or each.log * moved[0].log < 0 for each in moved):
        return None
    # the change is between the last sampled step before it and the first one after it
    bounds = [sampled.filter(side)["start_ns"] for side in (pl.col("group") < place, pl.col("group") >= place)]
    first, last = (int(same["start_ns"].search_sorted(at)) for at in (bounds[0][-1], bounds[1][0]))
    logs = same["duration_ns"].clip(1).cast(pl.Float64).log()
    before, after = logs[max(first - NEAR, 0) : first], logs[last : last + NEAR]
    sides = [blocks.quartiles(side.to_list(), BLOCK) for side in (before, after)]
    if min(map(len, sides)) < blocks.SIDE:
        return None
    level, later = map(statistics.median, sides)
    change = sum(each.gain_ns for each in moved) / math.exp(level)
    seen = math.expm1(later - level)
    spread = max(blocks.misfit(side) / len(side) for side in sides)
    agrees = AGREES[0] <= seen / change <= AGREES[1]
    if abs(change) < LEAST or not agrees or abs(later - level) < SHOWN * spread:
        return None
    # the steps of the two groups themselves may lie on either side
    earlier, following = sampled.filter(group=place - 1), sampled.filter(group=place)
    row = first + BLOCK * blocks.jump(blocks.quartiles(logs[first:last].to_list(), BLOCK), level, later)
    moment = int(same["start_ns"][min(row, same.height - 1)])
    found_at = change_range.of_lengths(steps, moment, (int(earlier["step"][0]) + 1, int(following["step"][-1])))
    return {
        **change_range.numbers(steps, found_at),
        "before_ms": milliseconds(math.exp(level)),
        "after_ms": milliseconds(math.exp(later)),
        "statistic": f"lower quartiles of up to {NEAR} steps before and after",
        "modules": [
            {
                "module": each.owner,
                "before_ms": milliseconds(each.before_ns),
                "after_ms": milliseconds(each.before_ns + each.gain_ns),
            }
            for each in moved
        ],
    }


def _grouped(steps: Steps) -> pl.DataFrame:
    """Return the sampled steps after the first `SETTLED` steps, with `group`.

    A group has at most `GROUP` consecutive steps. Groups are merged if there are more than `blocks.MOST`.
    """
    known = steps.table.with_row_index("step")[SETTLED:].filter("recorded").select("step", "start_ns")
    burst = (pl.col("step").diff() != 1).fill_null(True).cum_sum()
    inside = known.with_columns(burst=burst).with_columns(place=pl.int_range(pl.len()).over("burst") // GROUP)
    groups = inside.with_columns(group=pl.struct("burst", "place").rle_id())
    together = math.ceil(int(groups["group"].n_unique()) / blocks.MOST) or 1
    return groups.select("step", "start_ns", group=pl.col("group") // together)


def _moved(sampled: pl.DataFrame, found: Ownership) -> list[_Moved]:
    """Return the modules whose time changed, compared with the median movement of all modules."""
    times = found.by_step.filter(pl.col("self_ns") > 0).join(sampled, on="step")
    times = times.filter(pl.len().over("owner") >= USUAL * sampled.height)
    medians = times.group_by("owner", "group").agg(pl.col("self_ns").log().median().alias("log"))
    medians = medians.filter(pl.len().over("owner") == sampled["group"].n_unique())
    if medians["owner"].n_unique() < MODULES:
        return []
    off = pl.col("log") - pl.col("log").median().over("owner")
    relative = medians.with_columns(own=pl.col("log") - off.median().over("group")).sort("owner", "group")
    # most modules vary by less than the smallest change, so they need no search for one
    varies = pl.col("own").max().over("owner") - pl.col("own").min().over("owner")
    relative = relative.filter(varies >= math.log(FACTOR))
    moved = []
    for (owner,), table in relative.group_by("owner", maintain_order=True):
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
