"""What an accelerator did, in the tables that our own kernel stream fills: from another tool's result to a stream."""

import polars as pl

from ms_profiler.analysis import tables
from ms_profiler.analysis.kernels import MOST, Stream
from ms_profiler.analysis.metrics import device_steps, intervals, kernels, launched, overlap
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.thinning import kept_steps

_NAME = ["name", "type", "core"]


def collect(
    recording: tables.Recording, device: tables.Device, used: Steps, during: pl.DataFrame, restricted: bool
) -> Stream:
    """Return the tasks of a device as a kernel stream, and the steps as they show them.

    A task belongs to the step in whose window (see `device_steps.windows`) it starts, and one that our own tracing
    recorded to the step that launched it. `sums` are over the tasks that exchange nothing, as in the tables of the
    tools that record them. Of more than `kernels.MOST` tasks of our own tracing those of the first, the slowest and
    the last steps are kept.

    Args:
        recording: the run.
        device: its tasks.
        used: the steps in use.
        during: of `device_steps.windows`.
        restricted: keep to the time of the steps in use.
    """
    placed = pl.concat([device.tasks, _bound(recording, device, used)], how="horizontal").with_columns(
        _step(device, used, during)
    )
    tasks = placed.filter(pl.col("step").is_not_null()) if restricted else placed
    # the table of names has a row for each name with its type and core; where no type is known the name stands for it
    tasks = tasks.with_columns(pl.coalesce("type", "name").alias("type"))
    names = tasks.select(_NAME).unique(maintain_order=True).with_row_index("kernel")
    texts = [*recording.names, *tasks["shapes"].drop_nulls().unique(maintain_order=True)]
    shapes = dict(zip(texts[len(recording.names) :], range(len(recording.names), len(texts)), strict=True))
    timed = tasks.join(names, on=_NAME, how="left", maintain_order="left").with_columns(
        duration_ns=pl.col("end_ns") - pl.col("start_ns")
    )
    executions = kernels.waits_on_device(timed).with_columns(
        pl.col("stream").alias("lane"),
        pl.lit(used.process, pl.UInt32).alias("process"),
        pl.col("shapes").replace_strict(shapes, default=None, return_dtype=pl.UInt32)
        if shapes
        else pl.lit(None, pl.UInt32).alias("shapes"),
    )
    table = executions.select(*tables.KERNELS.names(), "exchange", "launch_ns").sort(
        "process", "lane", "start_ns", "kernel"
    )
    many = device.launches is not None and table.height > MOST
    detailed = kept_steps(used.recorded, table.height, MOST) if many else None
    kept = table if detailed is None else table.filter(intervals.locate(_moments(table), detailed).is_not_null())
    if device.form == tables.Form.MS_PROFILER:
        computed, exchanged = (intervals.union(tasks.filter(kind)) for kind in (~pl.col("exchange"), "exchange"))
        states = overlap.states(computed, exchanged, used)
        times = overlap.by_step(states)
    else:
        states = device_steps.states(tasks)
        times = device_steps.by_step(states, tasks, during, device.form)
    return Stream(
        texts=pl.Series("text", texts, dtype=pl.String),
        states=states,
        times=times,
        table=kept.select(tables.KERNELS.names()),
        names=names.select(
            pl.col("name").alias("full_name"),
            "type",
            "core",
            pl.lit("").alias("scope"),
            pl.lit(None, pl.String).alias("module"),
            pl.lit(None, pl.String).alias("class"),
        ),
        sums=kernels.sum_up(table.filter(~pl.col("exchange"))),
        detailed=None if detailed is None else detailed["number"].to_list(),
        decides=True,
    )


def _moments(tasks: pl.DataFrame) -> pl.Series:
    """Return when tasks were launched, as far as that is known, or else began."""
    return tasks.select(pl.coalesce("launch_ns", "start_ns").alias("moment")).to_series()


def _bound(recording: tables.Recording, device: tables.Device, used: Steps) -> pl.DataFrame:
    if device.launches is None:
        return launched.unbound(device.tasks.height)
    return launched.bind(recording, device.tasks, device.launches, used.process)


def _step(device: tables.Device, used: Steps, during: pl.DataFrame) -> pl.Series:
    """Return the step of each task: where its launch is known, the one in which that was."""
    by_start = during["step"].gather(intervals.locate(device.tasks["start_ns"], during))
    if device.launches is not None:
        known = used.table.with_row_index("step").filter("recorded")
        by_launch = known["step"].gather(intervals.locate(device.tasks["launch_ns"], known))
        by_start = by_launch.zip_with(device.tasks["launch_ns"].is_not_null(), by_start)
    return by_start.alias("step")


def calls(device: tables.Device, during: pl.DataFrame) -> pl.DataFrame:
    """Return the exchanges in the steps, with the columns of `communication.calls`; bytes are not known.

    Args:
        device: its tasks.
        during: of `device_steps.windows`.
    """
    exchanges = device.tasks.filter("exchange")
    rows = intervals.locate(exchanges["start_ns"], during)
    return (
        exchanges.with_columns(during["step"].gather(rows).alias("step"))
        .with_columns(pl.int_range(pl.len()).over("group").alias("number"))
        .filter(pl.col("step").is_not_null())
        .select(
            pl.col("name").alias("operation"),
            "group",
            "number",
            pl.lit(0, pl.Int64).alias("bytes"),
            *intervals.BOUNDS,
            "step",
        )
    )
