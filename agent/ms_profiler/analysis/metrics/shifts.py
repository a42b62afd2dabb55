"""Find the step from which on steps take longer or shorter, and the modules that changed.

The speed of a shared processor changes again and again, by half and more. This can hide a change of the steps' lengths.
But the speed affects all parts of a step alike. So the time of each module is also compared with the time of the other
modules, in the sampled steps. If neither the lengths nor the modules show a change, the share of each phase in a step
is examined.
"""

import math
import statistics
from typing import Any, Final, NamedTuple

import polars as pl

from ms_profiler.analysis.metrics import intervals, phases
from ms_profiler.analysis.metrics.ownership import Ownership
from ms_profiler.analysis.metrics.steps import Steps, milliseconds

#: Steps are cut into blocks, and the medians of the blocks are compared. `BLOCKS` and `BLOCKS_LEAST`: largest and
#: smallest number of blocks. `BLOCK`: smallest number of steps in a block. `BLOCK_SAMPLED`: the same for sampled steps,
#: of which a run may have few.
BLOCKS: Final = 200
BLOCKS_LEAST: Final = 16
BLOCK: Final = 8
BLOCK_SAMPLED: Final = 4
#: smallest number of blocks on either side of a change
SIDE: Final = 4
#: A change counts if it is at least `LEAST` of a step, and at least `CLEAR * spread`. On either side of the change,
#: spread = mean(|x - median(x)|) for the medians x of the blocks; the larger spread counts.
LEAST: Final = 0.05
CLEAR: Final = 4.0
#: used in place of `CLEAR` for the share of a phase; smaller, because also steps at full speed must show the change
CLEAR_PART: Final = 3.0
#: the length of a step at full speed is this quantile of the medians of the blocks, on either side of the change
FULL: Final = 0.1
#: largest allowed factor between the change at full speed and the change that the shares of phases predict
AGREES: Final = 2.0
#: a phase or a module is examined only if at least this part of the steps contains it
USUAL: Final = 0.9
#: If a module changed between two sampled steps, this number of steps tells the usual length of a step before them, and
#: just before and after the change.
NEAR: Final = 256
#: A change of modules by less than `LEAST` of a step counts if it is at least `LEAST_OF_MODULES` of a step, if each
#: of the modules took longer or shorter by the factor `CLEARLY`, and if at least `SETTLED` steps lie before the change.
LEAST_OF_MODULES: Final = 0.01
CLEARLY: Final = 1.25
SETTLED: Final = 64
#: If a module changed, the ratio of the time of all other modules to the rest of the step changed at most by this part
#: of the module's change.
ALONE: Final = 0.25
#: largest number of modules that are named, and the smallest part of the change that each of them makes up
NAMED: Final = 3
WORTH: Final = 0.2


def shift(steps: Steps, found: Ownership | None, spans: pl.DataFrame) -> dict[str, Any] | None:
    """Return the largest lasting change of the steps' length, with the modules whose time changed; None without one.

    Only steps with the most frequent `content` are compared. If steps were sampled, these are usually the steps without
    records. These steps are cut into blocks. The change lies where two constants, one before and one after it, fit the
    medians of the blocks best (least sum of absolute deviations). The first try uses the lengths of the steps. The
    second try uses, for each module in sampled steps, time of the module / time of all other modules. The third try
    uses, for each phase, time of the phase / time of the rest of the step.

    Args:
        steps: the steps in use.
        found: the owners of the time of sampled steps; None if no module is known.
        spans: table of the run's spans, with the columns of `tables.SPANS`.

    Returns:
        `step` (the first step after the change), `before_ms`, `after_ms`, and `modules`: a list of `module`,
        `before_ms` and `after_ms`, the largest change first.
    """
    kinds = steps.table["content"].value_counts().sort("count", "content", descending=[True, False])
    if kinds.is_empty():
        return None
    same = steps.table.filter(pl.col("content") == kinds["content"][0])[1:]
    lengths = same["duration_ns"].to_list()
    size = max(BLOCK, math.ceil(same.height / BLOCKS))
    by_length = _change([math.log(max(length, 1)) for length in lengths], size, CLEAR)
    by_module = _of_modules(same, steps, found)
    # a change of the processor's speed may be the largest change of the lengths, but no module explains it
    if by_length is not None and (by_module is None or by_module.small or _agree(by_length, by_module, size)):
        row, *logs, _ = by_length
        before, after = map(math.exp, logs)
    elif by_module is not None:
        row, before, after = by_module.row, by_module.before_ns, by_module.after_ns
    else:
        by_share = _of_phases(same, spans, steps, size)
        if by_share is None:
            return None
        row, before, after = by_share
    moment = int(same["start_ns"][row])
    return {
        "step": int(same["number"][row]),
        "before_ms": milliseconds(before),
        "after_ms": milliseconds(after),
        "modules": [] if found is None else _modules(steps, found, moment, before, after),
    }


def _change(values: list[float], size: int, least: float) -> tuple[int, float, float, float] | None:
    """Find the index from which on the values of a series differ; None if no change is significant.

    The result has four parts: the index, the median before it, the median from it on, and the significance, which is
    change / spread of the blocks.

    Args:
        values: logarithms, in the order of the steps.
        size: the size of a block.
        least: the smallest significance that is accepted.
    """
    medians = _medians(values, size)
    if len(medians) < BLOCKS_LEAST:
        return None
    block = min(range(SIDE, len(medians) - SIDE + 1), key=lambda at: _misfit(medians[:at]) + _misfit(medians[at:]))
    before, after = statistics.median(medians[:block]), statistics.median(medians[block:])
    spread = max(_misfit(medians[:block]) / block, _misfit(medians[block:]) / (len(medians) - block))
    moved = abs(after - before)
    if moved < max(math.log1p(LEAST), least * spread):
        return None
    first = max((block - 1) * size, 0)
    near = values[first : first + 2 * size]
    level = (before + after) / 2
    # the change is at the step from which on most values lie nearer to the later median
    sign = 1 if after > before else -1
    passed = [sign if value > level else -sign for value in near]
    at = max(range(len(near) + 1), key=lambda place: sum(passed[place:]) - sum(passed[:place]))
    return min(first + at, len(values) - 1), before, after, moved / max(spread, 1e-9)


class _ByModules(NamedTuple):
    """A change that the times of modules show.

    Attributes:
        row: the row of the first step after the change.
        before_ns: the median length of the steps before it.
        after_ns: what this length becomes by the change.
    """

    row: int
    before_ns: float
    after_ns: float

    @property
    def log(self) -> float:
        """Return the logarithm of the factor by which steps changed."""
        return math.log(self.after_ns / self.before_ns)

    @property
    def small(self) -> bool:
        """Return whether the change is too small to count if the lengths of the steps alone showed it."""
        return abs(self.log) < math.log1p(LEAST)


class _OfModule(NamedTuple):
    """A change of one module's time.

    Attributes:
        at: the number of sampled steps before the change.
        step: the logarithm of the factor by which a step changes if only this module does.
    """

    at: int
    step: float


def _agree(by_length: tuple[int, float, float, float], by_module: _ByModules, size: int) -> bool:
    """Return whether two changes are the same one: at nearly the same row, and by nearly the same factor."""
    change, expected = by_length[2] - by_length[1], by_module.log
    return abs(by_length[0] - by_module.row) <= 2 * size and 1 / AGREES <= change / expected <= AGREES


def _of_modules(same: pl.DataFrame, steps: Steps, found: Ownership | None) -> _ByModules | None:
    """Return the change at which a few modules begin to take another share of a sampled step; None without one.

    The result is None, too, if so many shares change that the rest of the step may be what changed.

    Args:
        same: steps with the same records.
        steps: the steps in use.
        found: the owners of the time of sampled steps; None if no module is known.
    """
    if found is None or found.basis != "host":
        return None
    known = steps.table.with_row_index("step").filter("recorded").select("step", "start_ns", "duration_ns")
    own = found.sums.drop_nulls("owner").cast({"step": pl.UInt32})
    times = own.group_by("step", "owner").agg(pl.col("self_ns").sum()).join(known, on="step")
    # a module that the job no longer calls would make all other modules seem to change
    times = times.filter(pl.len().over("owner") >= USUAL * known.height)
    times = times.with_columns(all_ns=pl.col("self_ns").sum().over("step")).sort("owner", "step")
    size = max(BLOCK_SAMPLED, math.ceil(known.height / BLOCKS))
    tried = [_of_module(table, known, size) for _, table in times.group_by("owner", maintain_order=True)]
    changes = [each for each in tried if each is not None]
    if not changes:
        return None
    best = max(changes, key=lambda each: abs(each.step))
    together = [
        math.expm1(each.step) for each in changes if abs(each.at - best.at) <= size and each.step * best.step > 0
    ]
    change = math.log1p(sum(together))
    last, row = (int(same["start_ns"].search_sorted(known["start_ns"][at])) for at in (best.at - 1, best.at))
    if not BLOCK <= last <= row <= same.height - BLOCK:
        return None
    logs = same["duration_ns"].cast(pl.Float64).log()
    # between two sampled steps, the lengths of the other steps tell which of them is the first after the change
    level = _middle(logs[max(last - NEAR, 0) : last])
    near = logs[last:row]
    fits = [0.0, *((near - level).abs() - (near - level - change).abs()).cum_sum().to_list()]
    row = last + min(range(len(fits)), key=fits.__getitem__)
    change = _around(logs, row, change)
    before = math.exp(_middle(logs[:row]))
    return _ByModules(row, before, before * math.exp(change))


def _around(logs: pl.Series, row: int, change: float) -> float:
    """Return the change of the steps' length around a row, or `change` if the steps there do not show it clearly.

    Not all of the work that a module causes is known to be its work. So a step usually changes by more than the module.
    But around the row, the processor's speed may change, too.

    Args:
        logs: logarithms of the steps' lengths.
        row: the row of the first step after the change.
        change: the expected change, as a logarithm.
    """
    sides = [_medians(side.to_list(), BLOCK) for side in (logs[max(row - NEAR, 0) : row], logs[row : row + NEAR])]
    if not all(sides):
        return change
    before, after = map(statistics.median, sides)
    spread = max(_misfit(side) / len(side) for side in sides)
    agrees = 1 / AGREES <= (after - before) / change <= AGREES
    return after - before if agrees and abs(after - before) >= CLEAR_PART * spread else change


def _of_module(table: pl.DataFrame, known: pl.DataFrame, size: int) -> _OfModule | None:
    """Return the change of one module's time; None without one.

    Args:
        table: for each sampled step, the time of the module `self_ns`, of all modules `all_ns`, and of the step.
        known: the sampled steps.
        size: the number of sampled steps in a block.
    """
    rest = table["duration_ns"] - table["self_ns"]
    others = table["all_ns"] - table["self_ns"]
    kept = (rest > 0) & (others > 0) & (table["self_ns"] > 0)
    table, rest, others = table.filter(kept), rest.filter(kept), others.filter(kept)
    if table.height < USUAL * known.height:
        return None
    changed = _change((table["self_ns"] / others).log().to_list(), size, CLEAR_PART)
    if changed is None:
        return None
    at, before, after, _ = changed
    log, beside = after - before, (others / rest).log()
    if abs(_middle(beside[at:]) - _middle(beside[:at])) > ALONE * abs(log):
        return None
    share = _middle((table["self_ns"] / table["duration_ns"])[:at])
    step, first = math.log1p(share * math.expm1(log)), int(known["start_ns"].search_sorted(table["start_ns"][at]))
    settled = int(table["step"][at]) >= SETTLED and abs(log) >= math.log(CLEARLY)
    if abs(step) < math.log1p(LEAST_OF_MODULES if settled else LEAST):
        return None
    return _OfModule(first, step)


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
        changed = _change((part / (1 - part)).log().to_list(), size, CLEAR_PART)
        if changed is not None and (best is None or changed[3] > best[0]):
            at, before, after, clear = changed
            best = clear, int(rows[at]), 1 / (1 + math.exp(-before)), 1 / (1 + math.exp(-after))
    if best is None:
        return None
    _, place, share, shared = best
    sides = [_medians(values.to_list(), size) for values in (lengths[:place], lengths[place:])]
    if min(map(len, sides)) < SIDE:
        return None
    before, after = (sorted(values)[int(FULL * len(values))] for values in sides)
    seen = math.log(after / before)
    # The ratio of the phase changed most clearly, so the phase itself changed, and not the rest of the step.
    expected = math.log((1 - share) / (1 - shared))
    agrees = bool(expected) and 1 / AGREES <= seen / expected <= AGREES
    return (place, before, after) if agrees and abs(seen) >= math.log1p(LEAST) else None


def _medians(values: list[Any], size: int) -> list[float]:
    """Return the median of each complete block of `size` values."""
    return [statistics.median(values[at : at + size]) for at in range(0, len(values) - size + 1, size)]


def _misfit(values: list[float]) -> float:
    middle = statistics.median(values)
    return sum(abs(value - middle) for value in values)


def _modules(steps: Steps, found: Ownership, moment_ns: int, length_ns: float, later_ns: float) -> list[dict[str, Any]]:
    """Return the modules whose time in a step changed most, from before `moment_ns` to after it.

    The time of a module is (median of its shares of the recorded steps) * (length of a step). If the speed of the
    processor changed, too, times change in all modules. So a module counts only if its share moved with the length.

    Args:
        steps: the steps in use.
        found: the owners of the time.
        moment_ns: the begin of the first step after the change, in ns.
        length_ns: the length of a step before the change, ns.
        later_ns: the length of a step after the change, ns.
    """
    starts = steps.table.with_row_index("step").select("step", "duration_ns", later=pl.col("start_ns") >= moment_ns)
    own = found.sums.drop_nulls("owner").group_by("step", "owner").agg(pl.col("self_ns").sum())
    both = own.join(starts.cast({"step": own.schema["step"]}), on="step")
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
