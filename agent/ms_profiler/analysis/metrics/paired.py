"""Measure the cost of recording in jobs that record only some steps, from pairs of neighbouring steps.

The job cuts its steps into stretches, and records a burst (some consecutive steps) in each stretch. So each stretch
gives one pair: steps with records, and the steps next to them without records. The job chose the recorded steps at
random, so on average the records are the only difference.

The result is a trimmed mean: the lowest and the highest tenth of the pairs do not count. Otherwise, one step that the
system disturbed would outweigh a hundred others. The standard error is that of Tukey and McLaughlin, from the
winsorized variance (Wilcox, Introduction to Robust Estimation, 3.4).
"""

import math
from itertools import accumulate
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics import intervals, known_waits, length_ratios, phases, sampling
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import CATEGORY_FINE, Category
from ms_profiler.store.names import OWN_WORK, REQUESTED

#: the cost is measured only from at least this number of pairs
LEAST: Final = 8
#: share of the pairs that is left out at each end: the lowest and the highest pairs
TRIMMED: Final = 0.1
#: Work between two steps counts up to this multiple of its median: the thread lost its processor in longer work. To
#: exchange all hooks takes some five times as long as the median.
LONG: Final = 8


def paired(recording: tables.Recording, steps: Steps) -> dict[str, Any] | None:
    """Return the cost of recording; None if too few stretches have steps with and without records.

        recording = extra time of a sampled step * sampled steps / time of all steps
        hooks     = time of hooks in a step / length of a step
        between   = time of ms-profiler's work between steps / time of all steps
        helper    = processor time of the recorder's helper thread / time
        share     = recording + hooks + between + helper

    Hooks measured the time of their own code in C in some steps of the job. From this, the job estimated their whole
    time: hooks also take time in Python, and make the code after them slower (`job.budget.WHOLE`). In steps in which
    hooks rest, each of their calls adds a constant (`job.budget.AT_REST`). If hooks could not measure their time, it is
    computed.
    In a job whose work replaces the contents of the caches, the computed time is several times too low:

        coarse spans of a step * span_ns + modules of a step * idle_ns

    `span_ns` is the cost of one recorded span, and `idle_ns` the cost of one hook that records nothing, in a loop.

    A burst is a number of consecutive sampled steps. For a burst of n steps, with m the mean length of the steps
    around it:

        extra time of a sampled step = (time of the burst and of the step after it - (n + 1) * m) / n

    The step after the burst counts, because records are switched off in this step, which is a part of the cost. If most
    steps were sampled, bursts of steps without records are compared instead:

        extra time of a sampled step = m - mean length of the steps without records

    Between two steps, ms-profiler begins and ends bursts, compares steps, and reads counters. This time belongs to no
    step, and is recorded. Work that the script's own profiler requested does not count. The helper thread works beside
    the job. Its time counts in full, as in a job that computes on all processors.

    Checkpoints do not count: one in 50 steps may take as long as 20 steps, and chance decides on which side it is.

    Args:
        recording: the run.
        steps: the steps in use.

    Returns:
        `pairs` and `sampled` (numbers of pairs and of sampled steps), `per_step_ms` (extra time of a sampled step),
        `recording`, `hooks`, `hooks_own` (share of the measured time), `hooks_steps` (number of steps that measured
        it; both are None if the time is computed), `between`, `helper`, `share`, and `standard_error` (of `recording`).
    """
    if not sampling.sampled(steps):
        return None
    saves = known_waits.waits(recording.spans, steps).filter(pl.col("phase") == phases.NAMES[Category.CHECKPOINT])
    saved = saves.select(pl.col("step").cast(pl.UInt32), saved_ns="duration_ns")
    marked = steps.table.with_row_index("step").join(saved, on="step", how="left", maintain_order="left")
    wanted = marked.filter(pl.col("content").is_in([tables.ALL_OF_IT, tables.COARSE]))
    found = _pairs(wanted)
    if len(found) < LEAST:
        return None
    mean, error = trimmed(found)
    known = wanted.filter("recorded").height
    whole = int(wanted["duration_ns"].sum())
    inside = pl.col("start_ns").is_between(wanted["start_ns"][0], wanted["end_ns"][-1])
    inside &= pl.col("process") == steps.process
    measured = recording.info.cost
    timed = int(measured.get("hooks_steps", 0))
    own_ns = measured.get("hooks_own_ns") if timed >= LEAST else None
    if own_ns is None:
        hook_ns = _computed(recording, steps, wanted, inside)
    else:
        rested = int(sampling.rested(steps, recording.spans, wanted.filter(~pl.col("recorded"))).sum())
        hook_ns = measured["hooks_ns"] + measured.get("rest_ns", 0.0) * rested / wanted.height
    records, hooks = mean * known / whole, hook_ns * wanted.height / whole
    works = pl.col("category") == Category.PROFILER, pl.col("thread") == steps.thread
    between = _between(recording.spans.filter(inside, *works), recording.names) / whole
    helper = float(measured.get("helper", 0.0))
    records, hooks, between, helper = (round(part, 6) for part in (records, hooks, between, helper))
    return {
        "pairs": len(found),
        "sampled": known,
        "per_step_ms": round(mean / 1e6, 6),
        "recording": records,
        "hooks": hooks,
        "hooks_own": None if own_ns is None else round(own_ns * wanted.height / whole, 6),
        "hooks_steps": None if own_ns is None else timed,
        "between": between,
        "helper": helper,
        "share": round(records + hooks + between + helper, 6),
        "standard_error": round(error * known / whole, 6),
    }


def _between(spans: pl.DataFrame, names: pl.Series) -> int:
    """Return the time of ms-profiler's work, without waits for a processor, ns.

    Args:
        spans: this work on the stepping thread, with what the script's own profiler requested.
        names: text of each name.
    """
    own = spans.with_columns(name=names.gather(spans["name"])).filter(pl.col("name") != REQUESTED)
    length, works = pl.col("end_ns") - pl.col("start_ns"), pl.col("name") == OWN_WORK
    most = (LONG * length.filter(works).median()).cast(pl.Int64)
    ends = pl.when(works).then(pl.min_horizontal(pl.col("start_ns") + most, "end_ns")).otherwise("end_ns")
    return intervals.total_ns(intervals.union(own.with_columns(end_ns=ends)))


def _computed(recording: tables.Recording, steps: Steps, wanted: pl.DataFrame, inside: pl.Expr) -> float:
    """Return the time of the hooks in a step, ns, computed as `paired` says.

    Args:
        recording: the run.
        steps: the steps in use.
        wanted: those of the steps that count.
        inside: whether a span is of the process of these steps, and begins within them.
    """
    hooked = pl.col("category") < CATEGORY_FINE, pl.col("category") != Category.PROFILER
    coarse = recording.spans.filter(inside, *hooked).height / wanted.height
    modules = _modules(recording, steps) / max(wanted.filter("recorded").height, 1)
    cost = recording.info.cost
    return coarse * cost.get("span_ns", 0.0) + modules * cost.get("idle_ns", 0.0)


def _modules(recording: tables.Recording, steps: Steps) -> int:
    """Return the number of calls of modules in all sampled steps, by the process of the steps.

    Args:
        recording: the run.
        steps: the steps in use.
    """
    if recording.sums_by_place is not None:
        of_steps = pl.col("place").is_between(sampling.FIRST, sampling.FIRST + steps.table.height, closed="left")
        sums = recording.sums_by_place.filter(pl.col("category") == Category.MODULE, of_steps)
        return int(sums["count"].sum())
    calls = recording.spans.filter(pl.col("process") == steps.process, pl.col("category") == Category.MODULE)
    return intervals.locate(calls["start_ns"], steps.table.filter("recorded")).drop_nulls().len()


def _pairs(table: pl.DataFrame) -> list[float]:
    """Return the extra time of a sampled step in ns, one value per pair; `paired` tells the formula.

    Args:
        table: steps with all records or with coarse records, sorted by start; `saved_ns` is the time of checkpoints.
    """
    recorded = table["recorded"].to_list()
    saved = table["saved_ns"].fill_null(0)
    ends = (table["end_ns"] - saved.cum_sum()).to_list()
    sums = [0, *accumulate((table["duration_ns"] - saved).to_list())]
    runs: list[tuple[int, int]] = []
    for row, kind in enumerate(recorded):
        if runs and recorded[runs[-1][0]] == kind:
            runs[-1] = runs[-1][0], row + 1
        else:
            runs.append((row, row + 1))
    found = []
    for before, own, after in zip(runs, runs[1:], runs[2:], strict=False):
        length = own[1] - own[0]
        sampled = recorded[own[0]]
        skipped = own[1] + 1 if sampled else own[1]  # records are switched off in the step after a burst
        left = max(before[0], own[0] - length_ratios.BESIDE * length), own[0]
        right = skipped, min(after[1], skipped + length_ratios.BESIDE * length)
        beside = left[1] - left[0] + max(right[1] - right[0], 0)
        if length > beside or right[1] < right[0]:
            continue  # too few neighbours: these steps are themselves the neighbours of a shorter burst
        usual = (sums[left[1]] - sums[left[0]] + sums[right[1]] - sums[right[0]]) / beside
        if sampled:
            found.append((ends[skipped - 1] - ends[own[0] - 1] - usual * (length + 1)) / length)
        else:
            found.append(usual - (sums[own[1]] - sums[own[0]]) / length)
    return found


def trimmed(values: list[float]) -> tuple[float, float]:
    """Return the trimmed mean of some values, and the standard error of this mean.

        error = winsorized standard deviation / ((1 - 2 * TRIMMED) * sqrt(number of values))

    Args:
        values: the values, at least two.
    """
    ordered, count = sorted(values), len(values)
    out = int(TRIMMED * count)
    inner = ordered[out : count - out]
    mean = sum(inner) / len(inner)
    wins = [inner[0]] * out + inner + [inner[-1]] * out
    middle = sum(wins) / count
    variance = sum((value - middle) ** 2 for value in wins) / (count - 1)
    return mean, math.sqrt(variance) / ((1 - 2 * out / count) * math.sqrt(count))
