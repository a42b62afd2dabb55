"""Divide each step on a recorded device into parts: its work, or the reason why the device was idle.

A piece is an interval with one part. The steps are those of `launched_steps.spans`. The critical path uses the same
steps, so it divides the same time. While a device is idle, the launch of the next task shows the reason:

- The launch began before the device became idle: the reason is the device itself (a gap between kernels).
- The launch began while the device was idle: from the begin of the launch, the reason is launching. Before the launch,
  the reason is what the host was doing.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import bounds, critical_path, intervals
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.store.format import Category

#: parts of the host that are replaced by `bounds.SYNC` while the host waits for a device
_WAITING: Final = (bounds.HOST, bounds.BLOCKED, bounds.UNKNOWN)
#: parts of the host that are replaced by `bounds.LAUNCH` while the host launches work
_ELSEWHERE: Final = (bounds.HOST, bounds.UNKNOWN)


def host(
    did: pl.DataFrame,
    during: pl.DataFrame,
    tasks: pl.DataFrame,
    waits: pl.DataFrame,
    beside: pl.DataFrame,
    exchanged: pl.DataFrame,
) -> pl.DataFrame:
    """Return what the host did during steps on a device: `part`, `start_ns`, `end_ns`, sorted by time.

    Each moment has the part that `did` has there, with these exceptions:

    - The host waits for the device: the parts of `_WAITING` become `bounds.SYNC`. The wait lasts until the next launch
      if this launch follows within `bounds.GAP`.
    - The host launches: the parts of `_ELSEWHERE` become `bounds.LAUNCH`. To find these moments, put the times of all
      launches, and the starts and ends of all waits and steps, in order. Between two successive times that are at most
      `bounds.GAP` apart, the host counts as launching.
    - Another thread launches, for which the stepping thread sleeps: `bounds.BLOCKED` becomes `bounds.LAUNCH`, too.
    - Another thread exchanges data of the host: `bounds.BLOCKED` becomes `bounds.COMMUNICATION`.
    - An unknown part becomes `bounds.HOST`.

    Args:
        did: what the host did: `part`, `start_ns`, `end_ns`, without overlap; from `bounds.parts` for the host.
        during: the steps on the device: `start_ns`, `end_ns`.
        tasks: all tasks of the device: `launch_ns` (null if unknown).
        waits: intervals in which the host waited for the device.
        beside: intervals in which other threads launch for the stepping thread, such as backward passes of PyTorch.
        exchanged: intervals in which other threads exchange data with other ranks, such as gloo's.
    """
    bounded = [table.select(pl.col(side).alias("time_ns")) for table in (waits, during) for side in intervals.BOUNDS]
    signs = (
        pl.concat([tasks.select(pl.col("launch_ns").alias("time_ns")).drop_nulls(), *bounded]).unique().sort("time_ns")
    )
    between = signs.select(pl.col("time_ns").alias("start_ns"), pl.col("time_ns").shift(-1).alias("end_ns"))
    launching = intervals.union(between.filter(pl.col("end_ns") - pl.col("start_ns") <= bounds.GAP))
    # `intervals.timeline` takes a number for each part, not a name
    codes = {part: code for code, part in enumerate(did["part"].unique(maintain_order=True), 1)}
    known = did.with_columns(pl.col("part").replace_strict(codes, return_dtype=pl.Int64).alias("code"))
    sets = {"step": during, "waited": _returning(waits, tasks), "launching": launching, "beside": beside}
    sets["exchanged"] = exchanged
    sets["code"] = known.drop("part")
    line = intervals.timeline(sets, {"code": "code"}).filter(pl.col("step") > 0)
    names = {code: part for part, code in codes.items()}
    part = pl.col("code").replace_strict(names, default=bounds.HOST, return_dtype=pl.String)
    part_of_host = (
        pl.when((pl.col("waited") > 0) & part.is_in(_WAITING))
        .then(pl.lit(bounds.SYNC))
        .when(
            (pl.col("launching") > 0) & (part.is_in(_ELSEWHERE) | ((part == bounds.BLOCKED) & (pl.col("beside") > 0)))
        )
        .then(pl.lit(bounds.LAUNCH))
        .when((pl.col("exchanged") > 0) & (part == bounds.BLOCKED))
        .then(pl.lit(bounds.COMMUNICATION))
        .otherwise(part.replace(bounds.UNKNOWN, bounds.HOST))
    )
    return intervals.merge(line.select(part_of_host.alias("part"), *intervals.BOUNDS), "part").select(
        "part", *intervals.BOUNDS
    )


def parts(states: pl.DataFrame, tasks: pl.DataFrame, host: pl.DataFrame, launches: bool) -> pl.DataFrame:
    """Cut steps on a device into pieces, each with one part: the device's work, or the reason why it was idle.

    The rules are tried in this order, and the first rule that applies decides about a moment:

    - The device computes.
    - Data is exchanged.
    - Memory is copied.
    - The next task is queued.
    - The next task is being launched.
    - Otherwise the moment has the part of the host.

    Args:
        states: the states of `launched_steps.pieces`, only those of the selected steps.
        tasks: all tasks of the device: `start_ns`, `launch_ns` (null if unknown).
        host: what the host did, from the function `host`.
        launches: whether any launch of the run is known.

    Returns:
        One row per piece: `step`, `part`, `start_ns`, `end_ns`, sorted by time.
    """
    busy = (
        pl.when("computing")
        .then(pl.lit(bounds.COMPUTING))
        .when("communicating")
        .then(pl.lit(bounds.COMMUNICATION))
        .when("copying")
        .then(pl.lit(critical_path.COPY))
    )
    line = states.select("step", busy.alias("part"), *intervals.BOUNDS)
    idle = line.filter(pl.col("part").is_null())
    queued = _queued(intervals.merge(idle.select(intervals.BOUNDS)), tasks, launches)
    codes = {part: code for code, part in enumerate(host["part"].unique(maintain_order=True), 1)}
    did = host.select(*intervals.BOUNDS, pl.col("part").replace_strict(codes, return_dtype=pl.Int64).alias("code"))
    cut = intervals.timeline(
        {
            "idle": idle,
            "queued": queued.filter("queued"),
            "launched": queued.filter(~pl.col("queued")),
            "code": did,
        },
        {"code": "code"},
    ).filter(pl.col("idle") > 0)
    names = {code: part for part, code in codes.items()}
    known = pl.col("code").replace_strict(names, default=bounds.HOST, return_dtype=pl.String)
    why = (
        pl.when(pl.col("queued") > 0)
        .then(pl.lit(critical_path.GAP))
        .when(pl.col("launched") > 0)
        .then(pl.lit(bounds.LAUNCH))
        .otherwise(known)
    )
    placed = cut.with_columns(why.alias("part")).join_asof(idle.select("step", "start_ns"), on="start_ns")
    columns = ("step", "part", *intervals.BOUNDS)
    pieces = pl.concat([line.drop_nulls("part").select(columns), placed.select(columns).cast(line.schema)])
    whole = intervals.merge(pieces.sort("start_ns"), "step", "part")
    return whole.select(columns)


def _queued(idle: pl.DataFrame, tasks: pl.DataFrame, launches: bool) -> pl.DataFrame:
    """Return for each pause of the device the interval from the launch of the next task to the end of the pause.

    If the task was launched before the pause, the interval is the whole pause, and the column `queued` is true.

    Args:
        idle: the pauses, without overlap, sorted by time.
        tasks: the tasks, as for `parts`.
        launches: whether any launch of the run is known. If so, a task with an unknown launch counts as launched before
            the pause.
    """
    following = tasks.select(pl.col("start_ns").alias("next_ns"), "launch_ns").sort("next_ns", "launch_ns")
    ended = idle.sort("end_ns").join_asof(following, left_on="end_ns", right_on="next_ns", strategy="forward")
    unknown = pl.lit(launches) & pl.col("launch_ns").is_null() & pl.col("next_ns").is_not_null()
    launched = ended.with_columns(
        pl.when(unknown).then("start_ns").otherwise("launch_ns").alias("launch_ns"),
    ).filter(pl.col("launch_ns") < pl.col("end_ns"))
    return launched.select(
        (pl.col("launch_ns") <= pl.col("start_ns")).alias("queued"),
        pl.max_horizontal("start_ns", "launch_ns").alias("start_ns"),
        "end_ns",
    )


def _returning(waits: pl.DataFrame, tasks: pl.DataFrame) -> pl.DataFrame:
    """Return the host's waits for the device, each extended to the next launch if it follows within `bounds.GAP`."""
    launches = tasks.select(pl.col("launch_ns").alias("next_ns")).drop_nulls().sort("next_ns")
    found = waits.sort("end_ns").join_asof(launches, left_on="end_ns", right_on="next_ns", strategy="forward")
    soon = pl.col("next_ns") - pl.col("end_ns") <= bounds.GAP
    return intervals.union(found.with_columns(pl.when(soon).then("next_ns").otherwise("end_ns").alias("end_ns")))


def elsewhere(spans: pl.DataFrame, steps: Steps) -> pl.DataFrame:
    """Return the backward passes of the stepping thread whose operators run on threads of autograd's engine."""
    own = spans.filter(pl.col("process") == steps.process)
    passes = own.filter(pl.col("category") == int(Category.BACKWARD), pl.col("thread") == steps.thread)
    others = own.filter(pl.col("category") == int(Category.OP), pl.col("thread") != steps.thread)
    passes = intervals.union(passes)
    return passes[intervals.locate(others["start_ns"], passes).drop_nulls().unique().sort()]
