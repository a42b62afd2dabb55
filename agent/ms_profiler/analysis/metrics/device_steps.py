"""The states of an accelerator in each step (computing, communicating, idle), by the formulas of the recording tools.

Source: the code of MindSpore 2.10 (`AscendStepTraceTimeViewer`) and torch_npu (`TraceStepTimeParser`), and runs of
torch_npu. Both tools add up the intervals of the overlap analysis (`metrics.overlap`). Each interval counts wholly in
the step in which it starts. The tools differ in where a step begins and ends, and in the definition of a stage.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals, overlap
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model.tables import Form
from ms_profiler.store.format import StepSource

#: names of calls that receive data. NCCL's kernels are not searched by name, because NCCL uses the same kernel name for
#: receiving and for all-to-all exchanges
_RECEIVE: Final = r"(?i)^(c10d::|nccl:)?(i?recv|receive|coalesced)"
#: form of the result -> regular expression for the tasks that wait for another pipeline stage, for `bubbles`
_BUBBLES: Final = {
    Form.MINDSPORE: r"^(hcom_\w+SendRecv__\d+|hcom_send__\d+|hcom_receive__\d+|Receive-op|Send-op)",
    Form.TORCH_NPU: r"^hcom_receive",
    Form.KINETO: _RECEIVE,
    Form.CUPTI: _RECEIVE,
    Form.ACLPROF: r"^hcom_receive",
    Form.MSPTI: r"^hcom_receive",
}
_FOREVER: Final = 2**62
_LENGTH: Final = pl.col("end_ns") - pl.col("start_ns")
_WINDOWS: Final = pl.Schema({"step": pl.UInt32, "host_ns": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64})


def states(tasks: pl.DataFrame, since_ns: int | None = None) -> pl.DataFrame:
    """Cut the time from the first to the last task into intervals of one state: computing, communicating or idle.

    The device computes while a task without `exchange` runs, and communicates while a task with `exchange` runs. The
    intervals ignore steps; `overlap.states` cuts the time of each step in the same way.

    Args:
        tasks: `start_ns`, `end_ns`, `exchange` (whether the task exchanges data with other ranks).
        since_ns: end of all earlier tasks, in ns; the device was idle from then on. None if there are no earlier tasks.
    """
    line = intervals.timeline(
        {
            "computing": intervals.union(tasks.filter(~pl.col("exchange"))),
            "communicating": intervals.union(tasks.filter("exchange")),
        }
    )
    if since_ns is not None and line.height:
        idle = pl.DataFrame({"start_ns": [since_ns], "end_ns": line["start_ns"].head(1), "computing": 0})
        line = pl.concat(
            [idle.with_columns(communicating=pl.col("computing")).select(line.columns).cast(line.schema), line]
        )
    return line.select(
        pl.lit(None, pl.UInt32).alias("step"), pl.col("computing") > 0, pl.col("communicating") > 0, *intervals.BOUNDS
    )


def bubbles(names: pl.Series, form: Form) -> pl.Series:
    """Return for each task whether it waits for another stage of a pipeline.

    Args:
        names: the name of each task. For results of Kineto, its type instead of its name.
        form: the form of the result; it tells which tool recorded the tasks.
    """
    return names.str.contains(_BUBBLES[form])


def windows(tasks: pl.DataFrame, steps: Steps, form: Form) -> pl.DataFrame:
    """Return the interval of each step on the device: `step`, `host_ns`, `start_ns`, `end_ns`.

    `step` is the row of `steps.table`, and `host_ns` is the start of the step on the host. The interval depends on the
    tool that recorded the run:

    - ms-profiler: the interval of the step on the host.
    - MindSpore: the interval of the step on the host, including its last nanosecond.
    - Others: from the start of the first task that the host launched in the step to the end of the last such task. If
      the step ends later on the host, the interval ends there. A step without known launches has its interval on the
      host. Time in which two steps overlap belongs to the earlier step.

    If the run has no steps, there is one window that covers all time.

    Args:
        tasks: table of tasks, with the columns of `tables.TASKS`.
        steps: the steps in use.
        form: the form of the result; it tells the recording tool.
    """
    known = (
        steps.table.with_row_index("step")
        .filter("recorded")
        .select("step", *intervals.BOUNDS, pl.col("start_ns").alias("host_ns"))
    )
    if steps.source == StepSource.WHOLE_RUN:
        return known.with_columns(start_ns=pl.lit(-_FOREVER), end_ns=pl.lit(_FOREVER)).select(_WINDOWS.names())
    if form == Form.MS_PROFILER:
        return known.select(_WINDOWS.names())
    if form == Form.MINDSPORE:
        return known.with_columns(pl.col("end_ns") + 1).select(_WINDOWS.names())
    launched = tasks.with_columns(known["step"].gather(intervals.locate(tasks["launch_ns"], known)).alias("step"))
    spread = (
        launched.drop_nulls("step")
        .group_by("step")
        .agg(pl.col("start_ns").min().alias("first_ns"), pl.col("end_ns").max().alias("last_ns"))
    )
    own = known.join(spread, on="step", how="left", maintain_order="left").with_columns(
        start_ns=pl.coalesce("first_ns", "start_ns"), end_ns=pl.max_horizontal("end_ns", "last_ns")
    )
    before = pl.col("end_ns").cum_max().shift(1).fill_null(-_FOREVER)
    return own.with_columns(pl.max_horizontal("start_ns", before)).select(_WINDOWS.names())


def parts(runs: pl.DataFrame, most: int) -> Iterator[pl.DataFrame]:
    """Yield the tasks in several tables. The tables are cut at idle intervals, so that no task crosses a border.

    Args:
        runs: the tasks: `start_ns`, `end_ns`, sorted by start.
        most: after this number of tasks, a table ends at the next idle interval.
    """
    if runs.height <= most:
        yield runs
        return
    begins = runs["start_ns"] > runs["end_ns"].cum_max().shift(1)
    rows = begins.fill_null(False).arg_true()
    first = 0
    while first < runs.height:
        at = int(rows.search_sorted(first + most))
        until = int(rows[at]) if at < len(rows) else runs.height
        yield runs.slice(first, until - first)
        first = until


def by_step(pieces: pl.DataFrame, tasks: pl.DataFrame, during: pl.DataFrame, form: Form) -> pl.DataFrame:
    """Return the device's time of each state, one row per step, in ns, with the columns of `overlap.by_step`.

    Only intervals of `overlap.lanes` that start in the step count.

    - computing, communication, not_overlapped, free: total duration of the intervals in the lane of this name.
    - overlapped = communication - not_overlapped.
    - bubble: total duration of the exchanges that receive data. They wait for another stage of the pipeline.
    - stage: from the first start to the last end of the intervals of all lanes, minus bubble.
    - preparing: from the start of the step on the host to the start of the first interval that computes or
      communicates; 0 without such an interval.

    MindSpore's formulas differ:

    - free: all intervals of this lane count, cut at the start and the end of the step.
    - bubble: exchanges that send data count, too.
    - stage: from the start of the first exchange to the end of the exchange that starts last, minus bubble; 0 without
      exchanges.
    - preparing: the first interval counts even if it starts after the step.

    Args:
        pieces: intervals of one state each, from `states`.
        tasks: table of tasks, with the columns of `tables.TASKS`.
        during: the intervals of the steps on the device, from `windows`.
        form: the form of the result; it tells the recording tool.
    """
    waiting_names = tasks["type" if form == Form.KINETO else "name"]
    sums = [sum_up(pieces, tasks.with_columns(bubbles(waiting_names, form).alias("bubble")), during)]
    return add_up(sums, during, overlap.lanes(pieces) if form == Form.MINDSPORE else None)


def sum_up(pieces: pl.DataFrame, tasks: pl.DataFrame, during: pl.DataFrame) -> pl.DataFrame:
    """Return the sums of one section of the run, for `add_up`. A long run is summed up section by section.

    No task may cross the border of the section.

    Args:
        pieces: intervals of one state each, from `states`, of this section.
        tasks: `start_ns`, `end_ns`, `exchange`, `bubble` (whether the task waits for another pipeline stage).
        during: the intervals of the steps on the device, from `windows`.
    """
    lanes = overlap.lanes(pieces)
    bounds = during.select(intervals.BOUNDS)
    located = lanes.with_columns(_length=_LENGTH, row=intervals.locate(lanes["start_ns"], bounds))

    def total(lane: str) -> pl.Expr:
        return pl.col("_length").filter(pl.col("lane") == lane).sum()

    busy = pl.col("lane").is_in([overlap.LANE_COMPUTING, overlap.LANE_COMMUNICATION])
    sums = located.group_by("row").agg(
        total(overlap.LANE_COMPUTING).alias("computing"),
        total(overlap.LANE_COMMUNICATION).alias("communication"),
        total(overlap.LANE_NOT_OVERLAPPED).alias("not_overlapped"),
        total(overlap.LANE_FREE).alias("free"),
        pl.col("start_ns").min().alias("begin_ns"),
        pl.col("end_ns").max(),
        pl.col("start_ns").filter(busy).min().alias("first_ns"),
    )
    exchanges = tasks.filter("exchange")
    exchanged = (
        exchanges.with_columns(row=intervals.locate(exchanges["start_ns"], bounds), _length=_LENGTH)
        .group_by("row")
        .agg(
            pl.col("_length").filter("bubble").sum().alias("bubble"),
            pl.col("start_ns").min().alias("exchange_ns"),
            pl.col("start_ns").max().alias("last_ns"),
            pl.col("end_ns").sort_by("start_ns").last().alias("last_end_ns"),
        )
    )
    return sums.join(exchanged, on="row", how="full", coalesce=True)


def add_up(sums: Iterable[pl.DataFrame], during: pl.DataFrame, lanes: pl.DataFrame | None = None) -> pl.DataFrame:
    """Add the sums of all sections of a run; return the columns of `by_step`.

    Args:
        sums: the result of `sum_up` for each section, at least one.
        during: the intervals of the steps on the device, from `windows`.
        lanes: the lanes of `overlap.lanes`, which only MindSpore's formulas need; None for other formulas.
    """
    added = (
        pl.concat(list(sums))
        .drop_nulls("row")
        .group_by("row")
        .agg(
            pl.col("computing", "communication", "not_overlapped", "free", "bubble").sum(),
            pl.col("begin_ns", "first_ns", "exchange_ns").min(),
            pl.col("end_ns").max(),
            pl.col("last_end_ns").sort_by("last_ns", nulls_last=False).last(),
        )
    )
    table = during.with_row_index("row").join(
        added.rename({"end_ns": "until_ns"}), on="row", how="left", maintain_order="left"
    )
    stage = pl.col("until_ns") - pl.col("begin_ns")
    if lanes is not None:
        stage = pl.col("last_end_ns") - pl.col("exchange_ns")
        table = _of_mindspore(table, lanes)
    names = ("computing", "communication", "not_overlapped", "free", "bubble")
    filled = table.with_columns(stage.fill_null(0).alias("stage"), pl.col(names).fill_null(0))
    return filled.select(
        "step",
        pl.col("stage") - pl.col("bubble"),
        "computing",
        "communication",
        (pl.col("communication") - pl.col("not_overlapped")).alias("overlapped"),
        "not_overlapped",
        "free",
        "bubble",
        (pl.col("first_ns") - pl.col("host_ns")).fill_null(0).alias("preparing"),
    )


def _of_mindspore(table: pl.DataFrame, lanes: pl.DataFrame) -> pl.DataFrame:
    """Replace the columns that MindSpore defines differently: `free` and `first_ns`."""
    busy = lanes.filter(pl.col("lane").is_in([overlap.LANE_COMPUTING, overlap.LANE_COMMUNICATION]))
    following = busy.select("start_ns", pl.col("start_ns").alias("first_ns")).sort("start_ns")
    free = lanes.filter(pl.col("lane") == overlap.LANE_FREE)
    inside = [
        # these windows include the end of their steps, so they last 1 ns longer than the steps; this ns does not count
        intervals.total_ns(intervals.clip(free, start, max(end - 1, start)))
        for start, end in table.select(intervals.BOUNDS).iter_rows()
    ]
    found = table.drop("first_ns").join_asof(following, on="start_ns", strategy="forward")
    return found.with_columns(pl.Series("free", inside, dtype=pl.Int64))
