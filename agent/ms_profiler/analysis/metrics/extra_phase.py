"""Find where the time goes that makes some steps longer than the others: a phase, or time outside of all phases."""

import math
import statistics
from dataclasses import replace
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics import (
    bounds,
    callbacks,
    host_operators,
    intervals,
    launch_counts,
    phases,
    sampling,
    scheduling,
)
from ms_profiler.analysis.metrics.steps import Steps, stepping
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category
from ms_profiler.store.names import CALLBACK

#: a phase is named if it makes up at least this part of the difference; what the stepping thread does, likewise
MOST: Final = 0.5
#: without such a part, up to three parts that each make up at least this part of the difference are listed
LISTED: Final = 0.15
MANY: Final = 3
#: but only if together they make up at least this part of it
KNOWN: Final = 0.7
#: a step is left out if it takes more than this many times the median of its kind, for example because it compiles
FAR: Final = 10.0
#: operators are compared if at least this number of sampled steps is known of either kind
KINDS: Final = 4


def where(
    steps: Steps,
    longer: pl.Series,
    spans: pl.DataFrame,
    looks: pl.DataFrame | None = None,
    names: pl.Series | None = None,
) -> dict[str, Any]:
    """Return where the difference between the longer steps and the others lies, as the summary has it.

    Args:
        steps: the steps in use.
        longer: for each of them, whether it is one of the longer steps; at least one of them is. None for a step that
            is not compared.
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        looks: the samples of threads, with the columns of `tables.LOOKS`; None if unknown.
        names: texts by row; None if the names of operators do not matter.

    Returns:
        `phase`: the phase whose mean time in a step makes up most of the difference; None if no recorded phase does.
        `outside`: what the stepping thread does in most of the difference, if that lies outside of all phases:
        `bounds.BLOCKED` or `bounds.HOST`. None if that is unknown, or if the difference lies elsewhere.
        `callback`: the callback of the script that makes up most of the difference; then the others are None or empty.
        `calls`: if it runs code there and calls more operators in the longer steps, `more` (how many more in a step)
        and `names` (the most frequent ones of these); otherwise None.
        `parts`: if `phase` and `outside` are None, the parts that together make up most of the difference: `part` (a
        phase, `bounds.BLOCKED` or `bounds.HOST`) and its `share` of the difference. Empty if they are unknown, or if
        all of them are phases of the model, which tells no more than that all of the step takes longer.
    """
    nothing: dict[str, Any] = {"phase": None, "outside": None, "callback": None, "calls": None, "parts": []}
    rows = _compared(steps, longer, spans)
    rows = rows.filter(pl.col("duration_ns") <= FAR * pl.col("duration_ns").median().over("inside"))
    if rows["inside"].n_unique() < 2:
        return nothing
    sides = [rows.filter(side) for side in (pl.col("inside"), ~pl.col("inside"))]
    slow, usual = (statistics.fmean(side["duration_ns"].to_list()) for side in sides)
    if slow <= usual:
        return nothing
    counts = sides[0].height, sides[1].height
    every = replace(steps, table=steps.table.with_columns(recorded=pl.lit(True)))
    pieces = phases.pieces(spans, every).join(rows.select("step", "inside"), on="step")
    length = pl.col("end_ns") - pl.col("start_ns")
    inside, others = (length.filter(side).sum() for side in (pl.col("inside"), ~pl.col("inside")))
    times = pieces.group_by("phase").agg(more=inside / counts[0] - others / counts[1]).sort("more", "phase")
    shares = {str(phase): more / (slow - usual) for phase, more in times.iter_rows()}
    phase = next(reversed(shares))
    if phase != phases.OTHER and shares[phase] >= MOST:
        return nothing | {"phase": phase}
    if names is not None and shares[phases.OTHER] >= MOST:
        times = callbacks.by_step(spans, names, steps).join(rows.select("step", "inside"), on="step")
        if called := _callback(times, counts, MOST * (slow - usual)):
            return nothing | {"callback": called}
    outside = pieces.filter(phase=phases.OTHER)
    uses = _uses(steps, outside, counts, looks)
    found = {part: more / (slow - usual) for part, more in uses.items()}
    most = max(found, key=found.__getitem__)
    if shares.pop(phases.OTHER, 0.0) >= MOST and found[most] >= MOST:
        calls = None if names is None or most != bounds.HOST else _calls(steps, longer, spans, names)
        return nothing | {"outside": most, "calls": calls}
    listed = sorted(((share, part) for part, share in (shares | found).items() if share >= LISTED), reverse=True)[:MANY]
    told = len(listed) > 1 and math.fsum(share for share, _ in listed) >= KNOWN
    if not told or all(part in phases.COMPUTING for _, part in listed):
        return nothing
    return nothing | {"parts": [{"part": part, "share": round(share, 6)} for share, part in listed]}


def _compared(steps: Steps, longer: pl.Series, spans: pl.DataFrame) -> pl.DataFrame:
    """Return the steps that are compared, all with the same records: `step`, `inside` and `duration_ns`.

    While hooks rest, the phases of a step are not recorded. So if most steps are of this kind, the sampled ones are
    compared, if there are at least `KINDS` of them on either side.

    Args:
        steps: the steps in use.
        longer: for each of them, whether it is one of the longer steps; None for a step that is not compared.
        spans: table of the run's spans.
    """
    table = steps.table.with_row_index("step").with_columns(inside=longer).drop_nulls("inside")
    left_out = table.filter(~pl.col("recorded"))
    if left_out.height > table.height / 2 and 2 * int(sampling.rested(steps, spans, left_out).sum()) > left_out.height:
        table = table.filter("recorded")
        if min(table.filter(inside=side).height for side in (True, False)) < KINDS:
            table = table.clear()
    contents = table.filter("inside")["content"].mode().sort()
    same = table.filter(pl.col("content").is_in(contents.head(1).implode()))
    return same.select("step", "inside", "duration_ns")


def _uses(steps: Steps, outside: pl.DataFrame, counts: tuple[int, int], looks: pl.DataFrame | None) -> dict[str, float]:
    """Return how much longer the stepping thread is blocked, and runs code, outside of all phases in a longer step.

    Args:
        steps: the steps in use.
        outside: the pieces of steps outside of all phases, with `inside`: whether the step is one of the longer ones.
        counts: numbers of longer steps and of other steps.
        looks: the samples of threads.

    Returns:
        `bounds.BLOCKED` and `bounds.HOST` -> nanoseconds of a step; zeros if they are unknown.
    """
    known = pl.DataFrame(schema=tables.LOOKS) if looks is None else looks
    cells = scheduling.cells(known, steps.process, steps.thread)
    uses = [scheduling.usage(cells, outside.filter(side)) for side in (pl.col("inside"), ~pl.col("inside"))]
    _, ran, slept = (one / counts[0] - other / counts[1] for one, other in zip(*uses, strict=True))
    return {bounds.BLOCKED: slept, bounds.HOST: ran}


def _callback(times: pl.DataFrame, counts: tuple[int, int], least: float) -> str | None:
    """Return the callback of the script that takes at least `least` ns more in a longer step; None if none does.

    Args:
        times: the times of callbacks in the compared steps, as `callbacks.by_step`, with `inside`: whether the step is
            one of the longer ones.
        counts: numbers of longer steps and of other steps.
        least: the time, ns.
    """
    each = pl.when("inside").then(pl.col("time") / counts[0]).otherwise(-pl.col("time") / counts[1])
    more = times.group_by("name").agg(each.sum().alias("more")).sort("more", "name")
    if more.is_empty() or more["more"][-1] < least:
        return None
    return str(more["name"][-1]).removeprefix(CALLBACK)


def _calls(steps: Steps, longer: pl.Series, spans: pl.DataFrame, names: pl.Series) -> dict[str, Any] | None:
    """Return which operators the script calls outside of all phases more often in a longer step; None if it does not.

    Args:
        steps: the steps in use.
        longer: for each of them, whether it is one of the longer steps; None for a step that is not compared.
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        names: texts by row.
    """
    operators = stepping(spans, steps, Category.OP)
    # a large recording has the operators of a part of its sampled steps only
    known = host_operators.known(operators, steps)
    known = known.with_columns(inside=longer.gather(known["step"]))
    known = known.filter(pl.col("inside").is_not_null())
    counts = {side: known.filter(inside=side).height for side in (True, False)}
    if min(counts.values()) < KINDS:
        return None
    calls = launch_counts.aside(operators, phases.pieces(spans, steps))
    row = intervals.locate(calls["start_ns"], known)
    placed = calls.with_columns(inside=known["inside"].gather(row)).drop_nulls("inside")
    each = pl.when("inside").then(1 / counts[True]).otherwise(-1 / counts[False])
    more = placed.group_by("name").agg(each.sum().alias("more")).with_columns(text=pl.lit(names).gather("name"))
    whole = float(more["more"].sum())
    if whole < 1:
        return None
    often = more.filter(pl.col("more") >= max(launch_counts.FREQUENT * whole, 0.5))
    listed = often.sort("more", "text", descending=[True, False])["text"].head(launch_counts.MOST)
    return {"more": round(whole, 1), "names": listed.to_list()}
