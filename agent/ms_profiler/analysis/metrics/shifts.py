"""Find the step from which on steps take longer or shorter, and the modules that changed.

The speed of a shared processor changes again and again, by half and more. This can hide a change of the steps' lengths.
But the speed affects all parts of a step alike. So the time of each module is also compared with the time of the other
modules, in the sampled steps. If neither the lengths nor the modules show a change, the share of each phase in a step
is examined.
"""

import math
import statistics
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics import blocks, intervals, phases, small_shifts
from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.metrics.steps import Steps, milliseconds, stepping

#: Smallest number of steps in a block. `BLOCK_SAMPLED`: the same for sampled steps, of which a run may have few.
BLOCK: Final = 8
BLOCK_SAMPLED: Final = 4
#: smallest change that counts, 5 % of a step, as a logarithm; and its smallest significance (`blocks.change`)
LEAST: Final = math.log1p(0.05)
CLEAR: Final = 4.0
#: used in place of `CLEAR` for the share of a phase; smaller, because also steps at full speed must show the change
CLEAR_PART: Final = 3.0
#: the length of a step at full speed is this quantile of the medians of the blocks, on either side of the change
FULL: Final = 0.1
#: largest allowed factor between the change at full speed and the change that the shares of phases predict
AGREES: Final = 2.0
#: a phase or a module is examined only if at least this part of the steps contains it
USUAL: Final = 0.9
#: number of steps that tell the usual length of a step just before two sampled steps between which a module changed
NEAR: Final = 256
#: The `BESIDE` steps on either side of the change of a module show at least the part `ABRUPT` of it. The time of the
#: module alone, which is not compared with other modules, shows at least the part `OWN`.
BESIDE: Final = 32
ABRUPT: Final = 0.35
OWN: Final = 0.5
#: The medians of more than `BESIDE` steps on either side are stated only if they change like those of the `BESIDE`
#: steps, or as the change of the module predicts, to this factor.
LIKE: Final = 0.8
#: A change of the lengths by half is visible in the steps around it. Then all steps tell the first step after it.
VISIBLE: Final = math.log(1.5)
#: smallest number of steps that tell how much the records of a step change its length
OFTEN: Final = 8
#: If a module changed, the ratio of the time of all other modules to the rest of the step changed at most by this part
#: of the module's change.
ALONE: Final = 0.25
#: largest number of modules that are named, and the smallest part of the change that each of them makes up
NAMED: Final = 3
WORTH: Final = 0.2


def shift(steps: Steps, found: Ownership | None, spans: pl.DataFrame) -> dict[str, Any] | None:
    """Return the largest lasting change of the steps' length, with the modules whose time changed; None without one.

    Only steps with the most frequent `content` are compared. If steps were sampled, these are usually the steps without
    records. The first try uses the lengths of the steps. The second try uses, for each module in sampled steps, time of
    the module / time of all other modules. The third try uses, for each phase, time of the phase / time of the rest of
    the step. The last try looks for a small change (`small_shifts`).

    Args:
        steps: the steps in use.
        found: the owners of the time of sampled steps; None if no module is known.
        spans: table of the run's spans, with the columns of `tables.SPANS`.

    Returns:
        `step` (the first step after the change), `before_ms`, `after_ms`, `statistic` (what the two lengths are, in
        words), and `modules`: a list of `module`, `before_ms` and `after_ms`, the largest change first.
    """
    same = alike(steps)
    if same.is_empty():
        return None
    logs = same["duration_ns"].clip(1).cast(pl.Float64).log()
    size = max(BLOCK, math.ceil(same.height / blocks.MOST))
    by_length = blocks.change(logs.to_list(), size, CLEAR, LEAST)
    by_module = _of_modules(same, logs, steps, found)
    # a change of the processor's speed may be the largest change of the lengths, but no module explains it
    if by_length is not None and (by_module is None or _agree(by_length, by_module, size)):
        row, expected = by_length[0], None
    elif by_module is not None:
        row, expected = by_module
    else:
        by_share = _of_phases(same, spans, steps, size)
        if by_share is None:
            return small_shifts.shift(same, steps, found)
        return _stated(steps, found, *by_share, "the fastest tenth of the steps before and after")
    moment, (width, levels) = int(same["start_ns"][row]), _around(logs, row, expected)
    if abs(_change(levels)) >= VISIBLE:
        moment = _first(same, steps, row, levels, 2 * size)
        width, levels = _around(logs, max(int(same["start_ns"].search_sorted(moment)), 1), expected)
    before, after = map(math.exp, levels)
    of = "the steps" if width >= same.height else f"up to {width} steps"
    return _stated(steps, found, moment, (before, after), f"medians of {of} before and after")


def _stated(
    steps: Steps, found: Ownership | None, moment: int, lengths_ns: tuple[float, float], statistic: str
) -> dict[str, Any]:
    """Return a change in the form of `shift`.

    Args:
        steps: the steps in use.
        found: the owners of the time of sampled steps; None if no module is known.
        moment: the start of the first step after the change, ns.
        lengths_ns: the length of a step before and after, ns.
        statistic: what the two lengths are, in words.
    """
    number = steps.table["number"][int(steps.table["start_ns"].search_sorted(moment))]
    return {
        "step": int(number),
        "before_ms": milliseconds(lengths_ns[0]),
        "after_ms": milliseconds(lengths_ns[1]),
        "statistic": statistic,
        "modules": [] if found is None else modules(steps, found, (moment, moment), lengths_ns),
    }


def alike(steps: Steps) -> pl.DataFrame:
    """Return the steps with the most frequent `content`, which can be compared; without the first one."""
    kinds = steps.table["content"].value_counts().sort("count", "content", descending=[True, False])
    return steps.table.filter(pl.col("content").is_in(kinds["content"].head(1).implode()))[1:]


def _agree(by_length: tuple[int, float, float, float], by_module: tuple[int, float], size: int) -> bool:
    """Return whether two changes are the same one: at nearly the same row, and large enough for the module's change.

    The lengths may change by more, because other parts of a step may change at the same time.
    """
    change, expected = by_length[2] - by_length[1], by_module[1]
    return abs(by_length[0] - by_module[0]) <= 2 * size and change / expected >= 1 / AGREES


def _levels(logs: pl.Series, row: int, width: int) -> tuple[float, float]:
    """Return the medians of the up to `width` values before a row and of those from it on."""
    return _middle(logs[max(row - width, 0) : row]), _middle(logs[row : row + width])


def _around(logs: pl.Series, row: int, expected: float | None) -> tuple[int, tuple[float, float]]:
    """Return how many steps on either side of a row tell the change there, and the medians of their values.

    The number is that of all steps if they all do. The speed of the processor may have changed far from the row, which
    is no part of the change.

    Args:
        logs: the logarithms of the steps' lengths.
        row: the first step after the change.
        expected: the logarithm of the factor that the change of one module predicts; None if all steps tell the change.
    """
    widths = [BESIDE << power for power in range(64) if BESIDE << power < max(row, logs.len() - row)]
    found = [(width, _levels(logs, row, width)) for width in (logs.len(), *reversed(widths))]
    if expected is None:
        return found[0]
    # the lengths change by more than the module predicts if other parts of a step change at the same time
    near = _change(found[-1][1])
    told = near if near / expected > AGREES else expected
    return next((each for each in found if LIKE <= _change(each[1]) / told <= 1 / LIKE), found[-1])


def _change(levels: tuple[float, float]) -> float:
    return levels[1] - levels[0]


def _first(same: pl.DataFrame, steps: Steps, row: int, levels: tuple[float, float], around: int) -> int:
    """Return the start of the first step after a change of the lengths, in ns. All steps count, sampled or not.

    Records change the length of a step. So for each `content`, the median of this change is taken off first.

    Args:
        same: steps with the same records.
        steps: the steps in use.
        row: the row of `same` from which on the lengths differ.
        levels: the logarithms of the lengths of `same` before and after the change.
        around: number of rows of `same` on either side in which the step is sought.
    """
    starts = same["start_ns"]
    first, last = max(row - around, 0), min(row + around, same.height) - 1
    level = pl.when(pl.col("start_ns") < starts[row]).then(levels[0]).otherwise(levels[1])
    between = pl.col("start_ns").is_between(starts[row - 1], starts[row], closed="none")
    off = pl.when(~between).then(pl.col("log") - level)
    own = pl.when(off.count().over("content") >= OFTEN).then(off.median().over("content")).otherwise(0.0)
    every = steps.table.with_columns(log=pl.col("duration_ns").clip(1).cast(pl.Float64).log())
    near = every.with_columns(pl.col("log") - own).filter(pl.col("start_ns").is_between(starts[first], starts[last]))
    at = blocks.jump(near["log"].to_list(), *levels)
    return int(near["start_ns"][min(at, near.height - 1)])


def _of_modules(same: pl.DataFrame, logs: pl.Series, steps: Steps, found: Ownership | None) -> tuple[int, float] | None:
    """Return the row from which on one module takes another share of a sampled step, and the change of a step by it.

    The change is the logarithm of the factor by which a step becomes longer if only this module changed. Return None if
    no share changes, or if several shares change.

    Args:
        same: steps with the same records.
        logs: the logarithms of their lengths.
        steps: the steps in use.
        found: the owners of the time of sampled steps; None if no module is known.
    """
    if found is None or found.basis != "host":
        return None
    known = steps.table.with_row_index("step").filter("recorded").select("step", "start_ns", "duration_ns")
    each = found.by_step.join(known, on="step")
    # a module that the job no longer calls would make all other modules seem to change
    each = each.filter(pl.len().over("owner") >= USUAL * known.height)
    each = each.with_columns(all_ns=pl.col("self_ns").sum().over("step")).sort("owner", "step")
    size = max(BLOCK_SAMPLED, math.ceil(known.height / blocks.MOST))
    best: tuple[float, int, float] | None = None
    for _, table in each.group_by("owner", maintain_order=True):
        rest = table["duration_ns"] - table["self_ns"]
        others = table["all_ns"] - table["self_ns"]
        kept = (rest > 0) & (others > 0) & (table["self_ns"] > 0)
        table, rest, others = table.filter(kept), rest.filter(kept), others.filter(kept)
        if table.height < USUAL * known.height:
            continue
        ratio = (table["self_ns"] / others).log()
        changed = blocks.change(ratio.to_list(), size, CLEAR_PART, LEAST)
        if changed is None or (best is not None and changed[3] <= best[0]):
            continue
        at, before, after, clear = changed
        own, beside = table["self_ns"].log(), (others / rest).log()
        if (_middle(own[at:]) - _middle(own[:at])) / (after - before) < OWN:
            continue
        if abs(_middle(beside[at:]) - _middle(beside[:at])) <= ALONE * abs(after - before):
            share = _middle((table["self_ns"] / table["duration_ns"])[:at])
            best = clear, int(table["start_ns"][at]), math.log1p(share * math.expm1(after - before))
    if best is None or abs(best[2]) < LEAST:
        return None
    _, moment, change = best
    earlier = known.filter(pl.col("start_ns") < moment)["start_ns"]
    last, row = (int(same["start_ns"].search_sorted(at)) for at in (earlier[-1], moment))
    if not BLOCK <= last <= row <= same.height - BLOCK:
        return None
    # between two sampled steps, the lengths of the other steps tell which of them is the first after the change
    level = _middle(logs[max(last - NEAR, 0) : last])
    near = logs[last:row]
    fits = [0.0, *((near - level).abs() - (near - level - change).abs()).cum_sum().to_list()]
    row = last + min(range(len(fits)), key=fits.__getitem__)
    # where steps become longer little by little, two distant groups of sampled steps look like a change between them
    return (row, change) if _change(_levels(logs, row, BESIDE)) / change >= ABRUPT else None


def _middle(values: pl.Series) -> float:
    return float(statistics.median(values.to_list()))


def _of_phases(
    same: pl.DataFrame, spans: pl.DataFrame, steps: Steps, size: int
) -> tuple[int, tuple[float, float]] | None:
    """Return the start of the step from which on a phase takes another share, and two lengths of a step, in ns.

    The lengths are those at full speed before and after this step. The result is None if no share changes, or if steps
    at full speed do not show the change.

    Args:
        same: steps with the same records.
        spans: the spans of the run.
        steps: the steps in use.
        size: the size of a block.
    """
    own = stepping(spans, steps, *phases.NAMES)
    row = intervals.locate(own["start_ns"], same)
    inside = own.select("category", row=row, ns=pl.col("end_ns") - pl.col("start_ns")).drop_nulls("row")
    sums = inside.group_by("category", "row").agg(pl.col("ns").sum()).sort("category", "row")
    lengths = same["duration_ns"]
    best: tuple[float, int, float, float] | None = None
    for _, of_phase in sums.group_by("category", maintain_order=True):
        part = of_phase["ns"] / lengths.gather(of_phase["row"])
        known = (part > 0) & (part < 1)
        rows, part = of_phase["row"].filter(known), part.filter(known)
        if rows.len() < USUAL * same.height:
            continue
        changed = blocks.change((part / (1 - part)).log().to_list(), size, CLEAR_PART, LEAST)
        if changed is not None and (best is None or changed[3] > best[0]):
            at, before, after, clear = changed
            best = clear, int(rows[at]), 1 / (1 + math.exp(-before)), 1 / (1 + math.exp(-after))
    if best is None:
        return None
    _, place, share, shared = best
    sides = [blocks.medians(values.to_list(), size) for values in (lengths[:place], lengths[place:])]
    if min(map(len, sides)) < blocks.SIDE:
        return None
    before, after = (sorted(values)[int(FULL * len(values))] for values in sides)
    seen = math.log(after / before)
    # The ratio of the phase changed most clearly, so the phase itself changed, and not the rest of the step.
    expected = math.log((1 - share) / (1 - shared))
    agrees = bool(expected) and 1 / AGREES <= seen / expected <= AGREES
    return (int(same["start_ns"][place]), (before, after)) if agrees and abs(seen) >= LEAST else None


def modules(
    steps: Steps, found: Ownership, bounds_ns: tuple[int, int], lengths_ns: tuple[float, float]
) -> list[dict[str, Any]]:
    """Return the modules whose time in a step changed most, from before the first bound to after the second one.

    The time of a module is (median of its shares of the recorded steps) * (length of a step). If the speed of the
    processor changed, too, times change in all modules. So a module counts only if its share moved with the length.

    Args:
        steps: the steps in use.
        found: the owners of the time.
        bounds_ns: two times in ns. Steps that begin before the first one are compared with those that do not begin
            before the second one.
        lengths_ns: the length of a step of either kind, ns.
    """
    begin, (length_ns, later_ns) = pl.col("start_ns"), lengths_ns
    later = pl.when(begin >= bounds_ns[1]).then(True).when(begin < bounds_ns[0]).then(False)
    starts = steps.table.with_row_index("step").select("step", "duration_ns", later=later).drop_nulls()
    both = found.by_step.join(starts, on="step")
    if both["later"].n_unique() < 2:
        return []
    length = pl.when("later").then(later_ns).otherwise(length_ns)
    shares = both.group_by("owner", "later").agg((pl.col("self_ns") / pl.col("duration_ns")).median().alias("share"))
    medians = shares.with_columns(self_ns=pl.col("share") * length)
    sides = [medians.filter(pl.col("later") == later).drop("later") for later in (False, True)]
    table = sides[0].join(sides[1], on="owner", how="full", coalesce=True, suffix="_after").fill_null(0)
    change, moved = later_ns - length_ns, pl.col("self_ns_after") - pl.col("self_ns")
    grown = (pl.col("share_after") - pl.col("share")).sign() == math.copysign(1, change)
    worth = (moved / change >= WORTH) & grown
    named = table.filter(worth).sort(moved.abs(), "owner", descending=[True, False]).head(NAMED)
    return [
        {"module": row[0], "before_ms": milliseconds(row[1]), "after_ms": milliseconds(row[2])}
        for row in named.select("owner", "self_ns", "self_ns_after").iter_rows()
    ]
