"""Steps on a device, where a step consists of the work that the host launched during the step.

A kernel belongs to the step that launched it, no matter how late the kernel runs. A step has this span on the device:

    begin = max(begin of the step on the host, end of the previous step on the device)
    end   = max(end of the step on the host, end of the last kernel that this step or an earlier step launched)

So the spans do not overlap. If there is a gap between two spans, the host was in no step during the gap.
"""

from collections.abc import Iterable
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import StepSource

#: Boolean columns, one for each state of a device
STATES: Final = ("computing", "communicating", "copying")
_LENGTH: Final = pl.col("end_ns") - pl.col("start_ns")
#: one row per step: its interval on the device (`start_ns`, `end_ns`), and its begin on the host (`host_ns`)
SPANS: Final = pl.Schema({"step": pl.UInt32, "host_ns": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64})
_PARTS: Final = ("length", "computing", "overlapped", "not_overlapped", "copying", "idle")
#: one row per step: its length, and its time in each state, in ns
MOMENTS: Final = pl.Schema({"step": pl.UInt32, **dict.fromkeys(_PARTS, pl.Int64)})
#: step number of launches that were outside of all steps
_OUTSIDE: Final = -1


def owners(runs: pl.DataFrame, steps: Steps, launches: bool) -> pl.Series:
    """Return the step (row of `steps.table`) that launched each task; null if no step launched it, or if unknown.

    Steps that were not sampled count, too, because a device is recorded in all steps that no schedule leaves out.
    A stream runs its tasks in the order of their launches. So if the launch of a task is unknown, its two neighbours on
    the stream decide: if both belong to the same step, the task belongs to that step. If all launches of the run are
    unknown, a task belongs to the step on the host in which the task starts.

    Args:
        runs: the tasks: `stream`, `start_ns`, `launch_ns`.
        steps: the steps in use.
        launches: whether any launch of the run is known.
    """
    known = steps.table.with_row_index("step").filter(pl.col("content") != tables.TIMES_ALONE)
    if steps.source == StepSource.WHOLE_RUN and known.height:
        return pl.repeat(0, runs.height, dtype=pl.UInt32, eager=True).alias("step")
    times = runs["launch_ns"] if launches else runs["start_ns"]
    found = known["step"].gather(intervals.locate(times, known)).alias("step")
    if not launches or not times.has_nulls():
        return found
    placed = runs.select(
        "stream",
        "start_ns",
        # rows are unsigned integers, so they are cast to a signed type before -1 is filled in
        pl.when(times.is_not_null()).then(pl.lit(found).cast(pl.Int64).fill_null(_OUTSIDE)).alias("step"),
    ).with_row_index("row")
    both = placed.sort("stream", "start_ns", "row").with_columns(
        pl.col("step").forward_fill().over("stream").alias("before"),
        pl.col("step").backward_fill().over("stream").alias("after"),
    )
    between = pl.when(pl.col("before") == pl.col("after")).then("before")
    filled = both.with_columns(pl.coalesce("step", between).alias("step")).sort("row")["step"]
    return pl.select(pl.when(filled >= 0).then(filled)).to_series().cast(pl.UInt32).alias("step")


def spans(runs: pl.DataFrame, steps: Steps) -> pl.DataFrame:
    """Return the span of each recorded step on the device: `step`, `host_ns` (begin on the host), `start_ns`, `end_ns`.

    The span covers the work that the host launched during the step.

    Args:
        runs: `end_ns` of each task, and `step` as returned by `owners`.
        steps: the steps in use.
    """
    known = (
        steps.table.with_row_index("step")
        .filter("recorded")
        .select("step", pl.col("start_ns").alias("host_ns"), *intervals.BOUNDS)
    )
    last = runs.drop_nulls("step").group_by("step").agg(pl.col("end_ns").max().alias("last_ns"))
    ended = known.join(last, on="step", how="left", maintain_order="left").with_columns(
        end_ns=pl.max_horizontal("end_ns", pl.col("last_ns").cum_max().forward_fill())
    )
    return ended.with_columns(pl.max_horizontal("start_ns", pl.col("end_ns").shift(1))).select(SPANS.names())


def pieces(tasks: pl.DataFrame, copied: pl.DataFrame, during: pl.DataFrame, since: int, until: int) -> pl.DataFrame:
    """Cut the steps on the device wherever the device's state changes.

    Args:
        tasks: tasks that ran in the interval from `since` to `until`: `start_ns`, `end_ns`, `exchange`.
        copied: disjoint intervals in which memory was copied or set, sorted by time.
        during: the spans of the steps on the device, from `spans`.
        since: the begin of the interval, in ns.
        until: the end of the interval, in ns.

    Returns:
        `step`, the columns of `STATES`, `start_ns`, `end_ns`, sorted by time.
    """
    inside = intervals.clip(during, since, until)
    line = intervals.timeline(
        {
            "steps": inside,
            "computing": intervals.union(tasks.filter(~pl.col("exchange"))),
            "communicating": intervals.union(tasks.filter("exchange")),
            "copying": intervals.clip(copied, since, until),
        }
    ).filter(pl.col("steps") > 0)
    placed = line.join_asof(inside.select("step", "start_ns"), on="start_ns")
    states = placed.select("step", *(pl.col(state) > 0 for state in STATES), *intervals.BOUNDS)
    return intervals.merge(states, "step", *STATES).select(states.columns)


def states_of(pieces: pl.DataFrame) -> pl.DataFrame:
    """Return the time of each device state in each step, for one part of a run, with the columns of `MOMENTS`.

        length = computing + not_overlapped (only communicating) + copying (only copying) + idle

    The time of computing includes `overlapped`, in which the device computes and communicates at the same time.

    Args:
        pieces: the steps cut at changes of the state, from the function `pieces`.
    """
    computing, communicating, copying = (pl.col(state) for state in STATES)
    sums = {
        "length": computing | ~computing,
        "computing": computing,
        "overlapped": computing & communicating,
        "not_overlapped": communicating & ~computing,
        "copying": copying & ~computing & ~communicating,
        "idle": ~copying & ~computing & ~communicating,
    }
    counted = pieces.group_by("step").agg(_LENGTH.filter(state).sum().alias(name) for name, state in sums.items())
    return counted.select(MOMENTS.names()).cast(MOMENTS)


def moments(parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return the time of each device state in each step of the run, with the columns of `MOMENTS`, sorted by step.

    Args:
        parts: the results of `states_of` for the parts of a run, at least one.
    """
    table = pl.concat(list(parts)).group_by("step").agg(pl.exclude("step").sum()).sort("step")
    return table.select(MOMENTS.names()).cast(MOMENTS)


def steady(moments: pl.DataFrame, rows: pl.Series) -> pl.DataFrame:
    """Return the moments of the steady steps in which the device ran something; of all steps if there are none.

    Args:
        moments: the time of each device state in each step, from the function `moments`.
        rows: the rows of the steady steps.
    """
    found = moments.filter(pl.col("step").is_in(rows.implode()), pl.col("idle") < pl.col("length"))
    return moments if found.is_empty() else found


def sums(tasks: pl.DataFrame) -> pl.DataFrame:
    """Add up the times of the tasks that each step launched, for one part of a run. No task may cross its border.

    Args:
        tasks: `step`, `start_ns`, `end_ns`, `exchange`, `bubble` (whether the task waits for another pipeline stage).

    Returns:
        `step`; `computing`, `communication`, `busy` and `bubble` in ns; `first_ns` (when the first task started). Tasks
        that run at the same time count once, except in `bubble`.
    """
    own = tasks.drop_nulls("step")
    kinds = {"computing": own.filter(~pl.col("exchange")), "communication": own.filter("exchange"), "busy": own}
    table = own.group_by("step").agg(
        _LENGTH.filter(pl.col("exchange") & pl.col("bubble")).sum().alias("bubble"),
        pl.col("start_ns").min().alias("first_ns"),
    )
    for name, ran in kinds.items():
        table = table.join(_covered(ran).rename({"covered": name}), on="step", how="left")
    return table.select("step", pl.col(*kinds).fill_null(0), "bubble", "first_ns")


def by_step(parts: Iterable[pl.DataFrame], moments: pl.DataFrame, during: pl.DataFrame) -> pl.DataFrame:
    """Return the device's time of each kind in each step, in ns, with the columns of `overlap.by_step`.

    - computing, communication: union of the step's tasks of this kind, including tasks that ran after the step.
    - overlapped: time in which the device computed and communicated at once.
    - bubble: sum over the exchanges that wait for another pipeline stage.
    - free: time of the step on the device in which nothing ran there, not even a copy.
    - stage = span of the step on the device - bubble.
    - preparing: from the begin of the step on the host to the begin of its first task; 0 without a task.

    Args:
        parts: the results of `sums` for the parts of a run, at least one.
        moments: the time of each device state, from the function `moments`.
        during: the spans of the steps on the device, from `spans`.
    """
    launched = (
        pl.concat(list(parts))
        .group_by("step")
        .agg(pl.col("computing", "communication", "busy", "bubble").sum(), pl.col("first_ns").min())
    )
    free = moments.select("step", pl.col("idle").alias("free"))
    table = during.join(launched, on="step", how="left", maintain_order="left").join(
        free, on="step", how="left", maintain_order="left"
    )
    numbers = ("computing", "communication", "busy", "bubble", "free")
    alone = pl.col("busy") - pl.col("computing")
    return table.with_columns(pl.col(numbers).fill_null(0)).select(
        "step",
        (_LENGTH - pl.col("bubble")).alias("stage"),
        "computing",
        "communication",
        (pl.col("communication") - alone).alias("overlapped"),
        alone.alias("not_overlapped"),
        "free",
        "bubble",
        (pl.col("first_ns") - pl.col("host_ns")).fill_null(0).alias("preparing"),
    )


def _covered(tasks: pl.DataFrame) -> pl.DataFrame:
    """Return for each step the time in which at least one of its tasks ran: `step`, `covered`."""
    until = pl.col("end_ns").cum_max().shift(1).over("step")
    gained = (pl.col("end_ns") - pl.max_horizontal("start_ns", until)).clip(lower_bound=0)
    return tasks.sort("start_ns").with_columns(gained.alias("covered")).group_by("step").agg(pl.col("covered").sum())
