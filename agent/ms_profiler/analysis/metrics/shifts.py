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

from ms_profiler.analysis.metrics import blocks, change_range, holes, intervals, phases, small_shifts
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
#: If a module changed, the ratio of the time of all other modules to the rest of the step changed at most by this part
#: of the module's change.
ALONE: Final = 0.25
#: largest number of modules that are named, and the smallest part of the change that each of them makes up
NAMED: Final = 3
WORTH: Final = 0.2


class _Share(NamedTuple):
    """A change of the share of one module in a step.

    Attributes:
        row: about the first of the compared steps after the change.
        change: the logarithm of the factor by which a step becomes longer if only this module changed.
        bounds: the smallest and the largest row of the first step after the change, among all steps.
    """

    row: int
    change: float
    bounds: tuple[int, int]


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
        `step` (the most likely first step after the change), `earliest` and `latest` (the range of this step),
        `before_ms`, `after_ms`, `statistic` (what the two lengths are, in words), and `modules`: a list of `module`,
        `before_ms` and `after_ms`, the largest change first.
    """
    same = alike(steps)
    if same.is_empty():
        return None
    logs = same["duration_ns"].clip(1).cast(pl.Float64).log()
    size = max(BLOCK, math.ceil(same.height / blocks.MOST))
    by_length = blocks.change(logs.to_list(), size, CLEAR, LEAST)
    by_module = _of_modules(same, logs, steps, found)
    length_at = by_length and holes.place(steps, same, by_length[0], by_length[2] - by_length[1])
    module_at = by_module and holes.place(steps, same, by_module.row, by_module.change)
    if module_at is None:
        by_module = None
    # a change of the processor's speed may be the largest change of the lengths, but no module explains it
    if by_length is not None and length_at is not None and (by_module is None or _agree(by_length, by_module, size)):
        about, expected = length_at, None
    elif by_module is not None and module_at is not None:
        about, expected = module_at, by_module.change
    else:
        return _of_others(same, steps, found, spans, size)
    place = _place(steps, about, by_module)
    row = int(same["start_ns"].search_sorted(steps.table["start_ns"][place.at]))
    width, levels = _around(logs, min(max(row, 1), same.height - 1), expected)
    # the lengths at this place may show another change than that of the module
    if expected is not None and _change(levels) / expected < ABRUPT:
        return _of_others(same, steps, found, spans, size)
    before, after = map(math.exp, levels)
    of = "the steps" if width >= same.height else f"up to {width} steps"
    return _stated(steps, found, place, (before, after), f"medians of {of} before and after")


def _of_others(
    same: pl.DataFrame, steps: Steps, found: Ownership | None, spans: pl.DataFrame, size: int
) -> dict[str, Any] | None:
    """Return the change that the shares of phases show, or a small one (`small_shifts`), in the form of `shift`."""
    by_share = _of_phases(same, spans, steps, size)
    if by_share is None:
        return small_shifts.shift(same, steps, found, spans)
    return _stated(steps, found, *by_share, "the fastest tenth of the steps before and after")


def _place(steps: Steps, about: change_range.Range, by_module: _Share | None) -> change_range.Range:
    """Return the rows of the first step after a change, among all steps.

    Args:
        steps: the steps in use.
        about: about these rows, from `holes.place`.
        by_module: the change of a module, with the rows between which it lies; None if no module changed.
    """
    at, first, last = about
    known = (first, last) if by_module is None else by_module.bounds
    both = max(first, known[0]), min(last, known[1])
    return change_range.of_lengths(steps, int(steps.table["start_ns"][at]), both if both[0] <= both[1] else known)


def _stated(
    steps: Steps,
    found: Ownership | None,
    place: change_range.Range,
    lengths_ns: tuple[float, float],
    statistic: str,
) -> dict[str, Any]:
    """Return a change in the form of `shift`.

    Args:
        steps: the steps in use.
        found: the owners of the time of sampled steps; None if no module is known.
        place: the rows of the first step after the change.
        lengths_ns: the length of a step before and after, ns.
        statistic: what the two lengths are, in words.
    """
    bounds_ns = int(steps.table["start_ns"][place.first]), int(steps.table["start_ns"][place.last])
    return {
        **change_range.numbers(steps, place),
        "before_ms": milliseconds(lengths_ns[0]),
        "after_ms": milliseconds(lengths_ns[1]),
        "statistic": statistic,
        "modules": [] if found is None else modules(steps, found, around(steps, bounds_ns), lengths_ns),
    }


def alike(steps: Steps) -> pl.DataFrame:
    """Return the steps with the most frequent `content`, which can be compared; without the first one."""
    kinds = steps.table["content"].value_counts().sort("count", "content", descending=[True, False])
    return steps.table.filter(pl.col("content").is_in(kinds["content"].head(1).implode()))[1:]


def _agree(by_length: tuple[int, float, float, float], by_module: _Share, size: int) -> bool:
    """Return whether two changes are the same one: at nearly the same row, and large enough for the module's change.

    The lengths may change by more, because other parts of a step may change at the same time.
    """
    change, expected = by_length[2] - by_length[1], by_module.change
    return abs(by_length[0] - by_module.row) <= 2 * size and change / expected >= 1 / AGREES


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


def _of_modules(same: pl.DataFrame, logs: pl.Series, steps: Steps, found: Ownership | None) -> _Share | None:
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
    # the owners of a long run are known for a part of its sampled steps only
    known = steps.table.with_row_index("step").select("step", "start_ns", "duration_ns")
    known = known.join(found.by_step, on="step", how="semi", maintain_order="left")
    each = found.by_step.join(known, on="step")
    # a module that the job no longer calls would make all other modules seem to change
    each = each.filter(pl.len().over("owner") >= USUAL * known.height)
    each = each.with_columns(all_ns=pl.col("self_ns").sum().over("step")).sort("owner", "step")
    size = max(BLOCK_SAMPLED, math.ceil(known.height / blocks.MOST))
    best: tuple[float, int, float, tuple[int, int]] | None = None
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
            place = change_range.find(ratio.to_list(), at, (1, table.height - 1))
            bounds = int(table["step"][place.first - 1]) + 1, int(table["step"][place.last])
            best = clear, int(table["start_ns"][at]), math.log1p(share * math.expm1(after - before)), bounds
    if best is None or abs(best[2]) < LEAST:
        return None
    _, moment, change, bounds = best
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
    return _Share(row, change, bounds) if _change(_levels(logs, row, BESIDE)) / change >= ABRUPT else None


def _middle(values: pl.Series) -> float:
    return float(statistics.median(values.to_list()))


def _of_phases(
    same: pl.DataFrame, spans: pl.DataFrame, steps: Steps, size: int
) -> tuple[change_range.Range, tuple[float, float]] | None:
    """Return the rows of the step from which on a phase takes another share, and two lengths of a step, in ns.

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
    best: tuple[float, pl.Series, list[float], int, float, float] | None = None
    for _, of_phase in sums.group_by("category", maintain_order=True):
        part = of_phase["ns"] / lengths.gather(of_phase["row"])
        known = (part > 0) & (part < 1)
        rows, part = of_phase["row"].filter(known), part.filter(known)
        if rows.len() < USUAL * same.height:
            continue
        ratios = (part / (1 - part)).log().to_list()
        changed = blocks.change(ratios, size, CLEAR_PART, LEAST)
        if changed is not None and (best is None or changed[3] > best[0]):
            at, before, after, clear = changed
            best = clear, rows, ratios, at, 1 / (1 + math.exp(-before)), 1 / (1 + math.exp(-after))
    if best is None:
        return None
    _, rows, ratios, at, share, shared = best
    place = int(rows[at])
    sides = [blocks.medians(values.to_list(), size) for values in (lengths[:place], lengths[place:])]
    if min(map(len, sides)) < blocks.SIDE:
        return None
    before, after = (_fastest(values) for values in sides)
    seen = math.log(after / before)
    # The prefetched batches of a job may end at step 40, and its shares change again at step 260: then the fastest
    # steps before are not those next to the change
    near = _fastest(sides[0][len(sides[0]) // 2 :]), _fastest(sides[1][: (len(sides[1]) + 1) // 2])
    if abs(math.log(near[0] / before)) > abs(seen) / 2 or abs(math.log(after / near[1])) > abs(seen) / 2:
        return None
    # The ratio of the phase changed most clearly, so the phase itself changed, and not the rest of the step.
    expected = math.log((1 - share) / (1 - shared))
    agrees = bool(expected) and 1 / AGREES <= seen / expected <= AGREES
    if not agrees or abs(seen) < LEAST:
        return None
    found = change_range.find(ratios, at, (1, len(ratios) - 1))
    starts = same["start_ns"].gather(rows)
    at, first, last = (int(steps.table["start_ns"].search_sorted(starts[index])) for index in found)
    earlier = int(steps.table["start_ns"].search_sorted(starts[found.first - 1]))
    return change_range.Range(at, min(earlier + 1, first), last), (before, after)


def _fastest(values: list[float]) -> float:
    """Return the length that the fastest steps do not exceed."""
    return sorted(values)[int(FULL * len(values))]


def around(steps: Steps, bounds_ns: tuple[int, int]) -> pl.Series:
    """Return for each step whether it is after a change; None for the steps during the change.

    Args:
        steps: the steps in use.
        bounds_ns: begin and end of the change, ns.
    """
    begin = pl.col("start_ns")
    later = pl.when(begin >= bounds_ns[1]).then(True).when(begin < bounds_ns[0]).then(False)
    return steps.table.select(later=later).to_series()


def modules(steps: Steps, found: Ownership, later: pl.Series, lengths_ns: tuple[float, float]) -> list[dict[str, Any]]:
    """Return the modules whose times in the steps of two kinds differ most.

    If the speed of the processor changed, too, times change in all modules. So a module counts only if its share of a
    step moved with the length.

    Args:
        steps: the steps in use.
        found: the owners of the time.
        later: whether each step is of the second kind; None for a step of neither kind.
        lengths_ns: the length of a step of either kind, ns.
    """
    change, moved = lengths_ns[1] - lengths_ns[0], pl.col("after_ns") - pl.col("before_ns")
    grown = (pl.col("share_after") - pl.col("share")).sign() == math.copysign(1, change)
    table = medians(found.by_step, "owner", steps, later, lengths_ns)
    return listed(table.filter((moved / change >= WORTH) & grown))


def listed(table: pl.DataFrame) -> list[dict[str, Any]]:
    """Return up to `NAMED` modules of `medians` in the form of `shift`, the largest change first."""
    moved = (pl.col("after_ns") - pl.col("before_ns")).abs()
    named = table.sort(moved, "owner", descending=[True, False]).head(NAMED)
    return [
        {"module": row[0], "before_ms": milliseconds(row[1]), "after_ms": milliseconds(row[2])}
        for row in named.select("owner", "before_ns", "after_ns").iter_rows()
    ]


def medians(
    times: pl.DataFrame, key: str, steps: Steps, later: pl.Series, lengths_ns: tuple[float, float]
) -> pl.DataFrame:
    """Return the times of parts in the steps of two kinds: (median of its shares of the steps) * (length of a step).

    Args:
        times: the time of each part in recorded steps: `step`, `self_ns`, and the column `key`.
        key: the name of a part.
        steps: the steps in use.
        later: whether each step is of the second kind; None for a step of neither kind.
        lengths_ns: the length of a step of either kind, ns.

    Returns:
        `key`, `before_ns`, `after_ns`, `share` and `share_after` of a step, and `count` and `count_after`: the number
        of steps with the part. It has no rows if only steps of one kind were recorded.
    """
    starts = steps.table.with_row_index("step").select("step", "duration_ns", later=later).drop_nulls()
    both = times.join(starts, on="step")
    if both["later"].n_unique() < 2:
        both = both.clear()
    share = (pl.col("self_ns") / pl.col("duration_ns")).median()
    shares = both.group_by(key, "later").agg(share=share, count=pl.len())
    sides = [shares.filter(pl.col("later") == later).drop("later") for later in (False, True)]
    table = sides[0].join(sides[1], on=key, how="full", coalesce=True, suffix="_after").fill_null(0)
    before, after = (pl.col(name) * length for name, length in zip(("share", "share_after"), lengths_ns, strict=True))
    return table.with_columns(before_ns=before, after_ns=after)
