"""Divide the whole run into parts: its steps, and the time before, between and after the steps.

Every nanosecond of a run belongs to exactly one part. The records of the stepping thread decide the part. Time without
such records is "set-up" before the first step, "between steps", or "after the last step".
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import host_operators, intervals, phases
from ms_profiler.analysis.metrics.steps import Steps, every
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category, Flag, StepSource
from ms_profiler.store.names import EVALUATING

STEPS: Final = "steps"
NETWORK: Final = "network calls"
SET_UP: Final = "set-up"
BETWEEN: Final = "between steps"
AFTER: Final = "after the last step"
OTHER: Final = "other"
UNRECORDED: Final = "not recorded"
#: time in which the process did not exist: it had not begun, or had ended
AWAY: Final = "other processes of the job"
#: part of the time outside of steps -> category of the spans that decide it; the first part in this order that applies
#: counts
_SPANS: Final = {
    "evaluation": Category.EVALUATION,
    "rollout": Category.ROLLOUT,
    "profiling": Category.PROFILER,
    "compile": Category.COMPILE,
    "checkpoint": Category.CHECKPOINT,
}
_IMPORT: Final = "import"
EVALUATION: Final = "evaluation"
#: the parts outside of steps in which a network is used
LOOPS: Final = (EVALUATION, "rollout")
#: the parts, in the order in which they are shown
PARTS: Final = (_IMPORT, SET_UP, STEPS, *_SPANS, NETWORK, BETWEEN, AFTER, OTHER, UNRECORDED, AWAY)


def stretches(recording: tables.Recording) -> pl.DataFrame:
    """Cut the time of each process with steps into parts. The parts of the first process cover the whole run.

    Args:
        recording: the run.

    Returns:
        `process`, `part`, `phase` (as in `phases.pieces`, or "not recorded"), `start_ns`, `end_ns`, sorted by time.
        Empty for another tool's result, because it does not show the time outside of steps.
    """
    if recording.foreign:
        return pl.DataFrame(schema=_SCHEMA)
    bounds = recording.processes.select(pl.col("first_ns").min(), pl.col("last_ns").max()).row(0)
    return pl.concat(
        _of_process(recording, steps, bounds if place == 0 else None) for place, steps in enumerate(every(recording))
    )


def parts(cut: pl.DataFrame) -> pl.DataFrame:
    """Return the time of a process as consecutive parts, without phases: `process`, `part`, `start_ns`, `end_ns`.

    Args:
        cut: the run's time cut into parts and phases, from `stretches`.
    """
    return intervals.merge(cut.select("start_ns", "end_ns", "process", "part"), "process", "part")


def sums(cut: pl.DataFrame) -> pl.DataFrame:
    """Return the time of each phase in each part: `process`, `part`, `phase`, `total_ns`.

    The parts have the order of `PARTS`. Within a part, the longest phase comes first.

    Args:
        cut: the run's time cut into parts and phases, from `stretches`.
    """
    order = pl.col("part").replace_strict({name: place for place, name in enumerate(PARTS)}, return_dtype=pl.Int32)
    return (
        cut.group_by("process", "part", "phase", maintain_order=True)
        .agg(total_ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
        .sort(pl.col("process").rle_id(), order, "total_ns", descending=[False, False, True], maintain_order=True)
    )


def training(cut: pl.DataFrame) -> pl.DataFrame:
    """Return the time of each part in the training: `process`, `part`, `total_ns`.

    The training of a process lasts from the begin of its first step, evaluation or rollout to the end of its last one.

    Args:
        cut: the run's time cut into parts and phases, from `stretches`.
    """
    acts = cut.filter(pl.col("part").is_in([STEPS, *LOOPS]))
    lasts = acts.group_by("process").agg(begin=pl.col("start_ns").min(), end=pl.col("end_ns").max())
    known = cut.join(lasts, on="process")
    inside = known.filter(pl.col("start_ns") >= pl.col("begin"), pl.col("end_ns") <= pl.col("end"))
    return inside.group_by("process", "part").agg(total_ns=(pl.col("end_ns") - pl.col("start_ns")).sum())


def _of_process(recording: tables.Recording, steps: Steps, run: tuple[int, int] | None) -> pl.DataFrame:
    """Cut the time of one process into parts and phases, in the form of `stretches`.

    Args:
        recording: the run.
        steps: the steps of the process.
        run: begin and end of the time to cover; None for the lifetime of the process.
    """
    own = recording.processes.filter(pl.col("process") == steps.process)
    first, last = own.select("first_ns", "last_ns").row(0)
    here = recording.spans.filter(pl.col("process") == steps.process)
    spans = here.filter(pl.col("thread") == steps.thread)
    known = steps.table.clear() if steps.source == StepSource.WHOLE_RUN else steps.table
    sets = {"run": _interval(first, last), STEPS: known, "unrecorded": known.filter(~pl.col("recorded"))}
    sets |= {name: _spans(spans, category) for name, category in _SPANS.items()}
    calls = _calls(spans, _joined(sets, STEPS, *LOOPS), recording.names)
    sets[NETWORK] = calls.filter(~pl.col("evaluating"))
    sets[EVALUATION] = intervals.union(pl.concat([sets[EVALUATION], calls.filter("evaluating")], how="diagonal"))
    # imports of all threads count: the thread that trains may have started after the imports
    sets[_IMPORT] = _spans(here, Category.IMPORT)
    sets["away"] = _interval(*run) if run else sets["run"]
    cut = phases.line(host_operators.with_exchanges(recording, spans), sets).filter(pl.col("away") > 0)
    begin, end = _joined(sets, STEPS, *LOOPS, NETWORK).select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    place = pl.lit(OTHER)
    if begin is not None:
        place = (
            pl.when(pl.col("end_ns") <= begin)
            .then(pl.lit(SET_UP))
            .when(pl.col("start_ns") >= end)
            .then(pl.lit(AFTER))
            .otherwise(pl.lit(BETWEEN))
        )
    skipped = _skipped(cut, known)
    outside = pl.when(skipped).then(pl.lit(UNRECORDED)).otherwise(place)
    known_as = {"run": pl.col("run") == 0, **{name: pl.col(name) > 0 for name in (STEPS, *_SPANS, NETWORK, _IMPORT)}}
    named = [pl.when(holds).then(pl.lit(AWAY if name == "run" else name)) for name, holds in known_as.items()]
    part = pl.coalesce(*named, outside)
    unknown = (pl.col("unrecorded") > 0) | (part == UNRECORDED)
    return cut.select(
        pl.lit(steps.process, pl.UInt32).alias("process"),
        part.alias("part"),
        pl.when(unknown).then(pl.lit(UNRECORDED)).otherwise("phase").alias("phase"),
        "start_ns",
        "end_ns",
    )


def _skipped(cut: pl.DataFrame, steps: pl.DataFrame) -> pl.Series:
    """Return, for each interval, whether the schedule left out the step that contains the interval.

    If no step contains the interval, the next step decides. If no step follows either, the last step decides.
    """
    if steps.is_empty():
        return pl.repeat(False, cut.height, eager=True)
    row = steps["end_ns"].search_sorted(cut["start_ns"], side="right").clip(upper_bound=steps.height - 1)
    return steps["content"].gather(row) == tables.TIMES_ALONE


def _calls(spans: pl.DataFrame, known: pl.DataFrame, names: pl.Series) -> pl.DataFrame:
    """Join consecutive calls of a network that lie between two intervals of `known`; return the joined intervals.

    Args:
        spans: the spans of the stepping thread.
        known: steps, evaluations and rollouts.
        names: the names of the recording.

    Returns:
        `start_ns`, `end_ns`, and `evaluating`: whether all of these calls are in evaluation mode.
    """
    called = (pl.col("category") == Category.FORWARD) | (pl.col("flags") & int(Flag.NO_GRADIENTS) != 0)
    calls = spans.filter(called)
    evaluating = names.gather(calls["name"]) == EVALUATING
    sets = [intervals.subtract(calls.filter(chosen), known) for chosen in (evaluating, ~evaluating)]
    apart = pl.concat([sets[0].with_columns(evaluating=pl.lit(True)), sets[1].with_columns(evaluating=pl.lit(False))])
    apart = apart.sort("start_ns")
    gap = intervals.union(known)["start_ns"].search_sorted(apart["start_ns"])
    runs = _runs(_runs(apart.with_columns(gap=gap, count=pl.lit(1))).with_columns(evaluating=_evaluating()))
    starts = pl.concat([intervals.union(known).select(next_ns="start_ns"), runs.select(next_ns="start_ns")])
    return _with_waits(runs, _spans(spans, Category.SYNC), starts.sort("next_ns"))


def _with_waits(runs: pl.DataFrame, waits: pl.DataFrame, starts: pl.DataFrame) -> pl.DataFrame:
    """Let runs of several calls end with the wait for the result of their last call.

    A call may only start the work of a network, and the script then waits for its result. If the script waits between
    two calls of a run, the next wait after the last call belongs to the run, too.

    Args:
        runs: the runs of calls, sorted by time.
        waits: the waits of the stepping thread for results.
        starts: the begins of the runs and of steps, evaluations and rollouts: `next_ns`, sorted.
    """
    before = waits.select(before_ns="start_ns")
    after = waits.select(after_ns="start_ns", waited_ns="end_ns")
    times = (
        runs.sort("end_ns")
        .join_asof(before, left_on="end_ns", right_on="before_ns", strategy="backward")
        .join_asof(after, left_on="end_ns", right_on="after_ns", strategy="forward")
        .join_asof(starts, left_on="end_ns", right_on="next_ns", strategy="forward")
    )
    waited = (pl.col("before_ns") > pl.col("start_ns")) & (pl.col("before_ns") < pl.col("end_ns"))
    last = waited & (pl.col("count") > 1) & (pl.col("waited_ns") <= pl.col("next_ns").fill_null(pl.col("waited_ns")))
    end = pl.when(last).then("waited_ns").otherwise("end_ns").alias("end_ns")
    return times.with_columns(end).select(*intervals.BOUNDS, "evaluating")


def _runs(calls: pl.DataFrame) -> pl.DataFrame:
    """Join consecutive calls that lie in one gap and are in the same mode; return them with their summed `count`."""
    return (
        calls.group_by(pl.struct("gap", "evaluating").rle_id().alias("run"), maintain_order=True)
        .agg(pl.col("start_ns", "gap", "evaluating").first(), pl.col("end_ns").last(), pl.col("count").sum())
        .drop("run")
    )


def _evaluating() -> pl.Expr:
    """Return an expression that tells, for the runs of calls in a gap, which of them belong to an evaluation.

    These are the calls in evaluation mode. A validation may also call a network that the script has left in training
    mode, in turn with one in evaluation mode. So if runs in the two modes alternate, those in training mode between two
    in evaluation mode belong to the evaluation, and so do the first and the last run of the gap if they are no longer.
    """
    place, other = pl.int_range(pl.len()), ~pl.col("evaluating")
    inside = other & (place > 0) & (place < pl.len() - 1)
    longest = pl.col("count").filter(inside).max()
    alternates = (other.sum() > 1) & (pl.col("count") <= longest).fill_null(False)
    return (pl.col("evaluating") | alternates).over("gap")


def _spans(spans: pl.DataFrame, category: Category) -> pl.DataFrame:
    return intervals.union(spans.filter(pl.col("category") == int(category)))


def _joined(sets: dict[str, pl.DataFrame], *names: str) -> pl.DataFrame:
    return pl.concat([sets[name].select(intervals.BOUNDS) for name in names])


def _interval(start_ns: int, end_ns: int) -> pl.DataFrame:
    return pl.DataFrame({"start_ns": [start_ns], "end_ns": [end_ns]}, schema=dict.fromkeys(intervals.BOUNDS, pl.Int64))


_SCHEMA: Final = pl.Schema(
    {"process": pl.UInt32, "part": pl.String, "phase": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64}
)
