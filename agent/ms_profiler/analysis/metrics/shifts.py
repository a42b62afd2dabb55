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
from ms_profiler.analysis.metrics.steps import Steps, milliseconds

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
        `step` (the first step after the change), `before_ms`, `after_ms`, and `modules`: a list of `module`,
        `before_ms` and `after_ms`, the largest change first.
    """
    same = alike(steps)
    if same.is_empty():
        return None
    lengths = same["duration_ns"].to_list()
    size = max(BLOCK, math.ceil(same.height / blocks.MOST))
    by_length = blocks.change([math.log(max(length, 1)) for length in lengths], size, CLEAR, LEAST)
    by_module = _of_modules(same, steps, found)
    # a change of the processor's speed may be the largest change of the lengths, but no module explains it
    if by_length is not None and (by_module is None or _agree(by_length, by_module, size)):
        row, *logs, _ = by_length
        before, after = map(math.exp, logs)
    else:
        by_share = by_module or _of_phases(same, spans, steps, size)
        if by_share is None:
            return small_shifts.shift(same, steps, found)
        row, before, after = by_share
    moment = int(same["start_ns"][row])
    return {
        "step": int(same["number"][row]),
        "before_ms": milliseconds(before),
        "after_ms": milliseconds(after),
        "modules": [] if found is None else modules(steps, found, (moment, moment), (before, after)),
    }


def alike(steps: Steps) -> pl.DataFrame:
    """Return the steps with the most frequent `content`, which can be compared; without the first one."""
    kinds = steps.table["content"].value_counts().sort("count", "content", descending=[True, False])
    return steps.table.filter(pl.col("content").is_in(kinds["content"].head(1).implode()))[1:]


def _agree(by_length: tuple[int, float, float, float], by_module: tuple[int, float, float], size: int) -> bool:
    """Return whether two changes are the same one: at nearly the same row, and by nearly the same factor."""
    change, expected = by_length[2] - by_length[1], math.log(by_module[2] / by_module[1])
    return abs(by_length[0] - by_module[0]) <= 2 * size and 1 / AGREES <= change / expected <= AGREES


def _of_modules(same: pl.DataFrame, steps: Steps, found: Ownership | None) -> tuple[int, float, float] | None:
    """Return the row from which on one module takes another share of a sampled step, and two lengths of a step.

    The first length is the median before the change, in ns. The second length is what the first becomes if only this
    module changed. Return None if no share changes, or if several shares change.

    Args:
        same: steps with the same records.
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
    logs = same["duration_ns"].cast(pl.Float64).log()
    # between two sampled steps, the lengths of the other steps tell which of them is the first after the change
    level = _middle(logs[max(last - NEAR, 0) : last])
    near = logs[last:row]
    fits = [0.0, *((near - level).abs() - (near - level - change).abs()).cum_sum().to_list()]
    row = last + min(range(len(fits)), key=fits.__getitem__)
    # where steps become longer little by little, two distant groups of sampled steps look like a change between them
    jumped = _middle(logs[row : row + BESIDE]) - _middle(logs[max(row - BESIDE, 0) : row])
    if jumped / change < ABRUPT:
        return None
    before = math.exp(_middle(logs[:row]))
    return row, before, before * math.exp(change)


def _middle(values: pl.Series) -> float:
    return float(statistics.median(values.to_list()))


def _of_phases(same: pl.DataFrame, spans: pl.DataFrame, steps: Steps, size: int) -> tuple[int, float, float] | None:
    """Return the row from which on a phase takes another share of a step, and the lengths of a step before and after.

    The lengths are those at full speed, in ns. The result is None if no share changes, or if steps at full speed do not
    show the change.

    Args:
        same: steps with the same records.
        spans: the spans of the run.
        steps: the steps in use.
        size: the size of a block.
    """
    own = spans.filter(
        pl.col("process") == steps.process,
        pl.col("thread") == steps.thread,
        pl.col("category").is_in([int(category) for category in phases.NAMES]),
    )
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
    return (place, before, after) if agrees and abs(seen) >= LEAST else None


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
