"""What an accelerator did in each step, by the formulas of the tools that record it.

Source: what MindSpore 2.10 (`AscendStepTraceTimeViewer`) and torch_npu (`TraceStepTimeParser`) compute, and runs of
the latter. Both sum up the intervals of the overlap analysis, each wholly in the step in which it starts, and differ in
when a step is and in what a stage is.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals, overlap
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.tables import Form
from ms_profiler.store.format import StepSource

#: what waits for another stage of a pipeline, by who recorded it
_BUBBLES: Final = {
    Form.MINDSPORE: r"^(hcom_\w+SendRecv__\d+|hcom_send__\d+|hcom_receive__\d+|Receive-op|Send-op)",
    Form.TORCH_NPU: r"^hcom_receive",
    Form.KINETO: r"(?i)nccl.*recv",
    Form.CUPTI: r"(?i)nccl.*recv",
    Form.ACLPROF: r"^hcom_receive",
    Form.MSPTI: r"^hcom_receive",
}
_FOREVER: Final = 2**62
_LENGTH: Final = pl.col("end_ns") - pl.col("start_ns")
_WINDOWS: Final = pl.Schema({"step": pl.UInt32, "host_ns": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64})


def states(tasks: pl.DataFrame) -> pl.DataFrame:
    """Cut the time from the first to the last task into pieces of one state, as `overlap.states` does with steps.

    computing = union of the tasks that exchange nothing; communicating = union of the others.

    Args:
        tasks: `tables.TASKS`.
    """
    line = intervals.timeline(
        {
            "computing": intervals.union(tasks.filter(~pl.col("exchange"))),
            "communicating": intervals.union(tasks.filter("exchange")),
        }
    )
    return line.select(
        pl.lit(None, pl.UInt32).alias("step"), pl.col("computing") > 0, pl.col("communicating") > 0, *intervals.BOUNDS
    )


def windows(tasks: pl.DataFrame, steps: Steps, form: Form) -> pl.DataFrame:
    """Return when each step was on the device: `step` (row of `steps.table`), `host_ns` (its begin), start and end.

    MindSpore: as long as on the host, the end included; our own: without the end. Others: from the start of the first
    task that the host launched in the step to the end of the last of them, or of the step on the host if that is later;
    a step that is not known to have launched anything is as long as on the host. Where two overlap, the first has the
    time. Without steps there is one window without bounds.

    Args:
        tasks: `tables.TASKS`.
        steps: the steps in use.
        form: who recorded it.
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


def by_step(pieces: pl.DataFrame, tasks: pl.DataFrame, during: pl.DataFrame, form: Form) -> pl.DataFrame:
    """Return one row a step, in nanoseconds: the columns of `overlap.by_step`.

    computing, communication, not_overlapped, free = sum over the intervals of that lane that start in the step
    (MindSpore cuts those of free at its bounds); overlapped = communication - not_overlapped; bubble = sum over the
    exchanges that start in the step and wait for another stage (MindSpore: send and receive; others: receive);
    stage = from the start of the first interval of any lane that starts in the step to the last end - bubble
    (MindSpore: from the start of the first exchange to the end of the one that starts last - bubble; 0 without any);
    preparing = from the start of the step on the host to that of the first interval that computes or communicates
    (MindSpore: even if that is after the step), 0 without one.

    Args:
        pieces: of `states`.
        tasks: `tables.TASKS`.
        during: of `windows`.
        form: who recorded it.
    """
    lanes = overlap.lanes(pieces)
    bounds = during.select(intervals.BOUNDS)
    located = lanes.with_columns(_length=_LENGTH, row=intervals.locate(lanes["start_ns"], bounds))
    busy = located.filter(pl.col("lane").is_in([overlap.LANE_COMPUTING, overlap.LANE_COMMUNICATION]))

    def total(lane: str) -> pl.Expr:
        return pl.col("_length").filter(pl.col("lane") == lane).sum()

    sums = located.group_by("row").agg(
        total(overlap.LANE_COMPUTING).alias("computing"),
        total(overlap.LANE_COMMUNICATION).alias("communication"),
        total(overlap.LANE_NOT_OVERLAPPED).alias("not_overlapped"),
        total(overlap.LANE_FREE).alias("free"),
        (pl.col("end_ns").max() - pl.col("start_ns").min()).alias("extent"),
    )
    exchanges = tasks.filter("exchange")
    exchanged = (
        exchanges.with_columns(row=intervals.locate(exchanges["start_ns"], bounds), _length=_LENGTH)
        .group_by("row")
        .agg(
            pl.col("_length").filter(pl.col("name").str.contains(_BUBBLES[form])).sum().alias("bubble"),
            (pl.col("end_ns").sort_by("start_ns").last() - pl.col("start_ns").min()).alias("exchanging"),
        )
    )
    first = busy.group_by("row").agg(pl.col("start_ns").min().alias("first_ns"))
    table = during.with_row_index("row")
    for part in (sums, exchanged, first):
        table = table.join(part, on="row", how="left", maintain_order="left")
    whole = "exchanging" if form == Form.MINDSPORE else "extent"
    if form == Form.MINDSPORE:
        following = busy.select("start_ns", pl.col("start_ns").alias("first_ns")).sort("start_ns")
        table = table.drop("first_ns").join_asof(following, on="start_ns", strategy="forward")
        free = lanes.filter(pl.col("lane") == overlap.LANE_FREE)
        inside = [
            # the end of a step counts as its own, and is no time
            intervals.total_ns(intervals.clip(free, start, max(end - 1, start)))
            for start, end in bounds.iter_rows()
        ]
        table = table.with_columns(pl.Series("free", inside, dtype=pl.Int64))
    names = ("computing", "communication", "not_overlapped", "free", "bubble", whole)
    filled = table.with_columns(pl.col(names).fill_null(0))
    return filled.select(
        "step",
        (pl.col(whole) - pl.col("bubble")).alias("stage"),
        "computing",
        "communication",
        (pl.col("communication") - pl.col("not_overlapped")).alias("overlapped"),
        "not_overlapped",
        "free",
        "bubble",
        (pl.col("first_ns") - pl.col("host_ns")).fill_null(0).alias("preparing"),
    )
