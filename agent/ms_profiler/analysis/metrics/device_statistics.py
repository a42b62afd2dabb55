"""The figures of Holistic Trace Analysis (HTA) about a device: launches, idle time by cause, queues, kinds of kernels.

The formulas come from `breakdown_analysis.py`, `cuda_kernel_analysis.py` and `trace_counters.py` of
github.com/facebookresearch/HolisticTraceAnalysis, 0.5. There is a difference: HTA leaves out the last step, and counts
only one kernel for each launch of a graph. Here all steps and all kernels are counted.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.model import tables

#: if a stream pauses before a queued task for less than this many ns, the pause is a "kernel wait"; HTA has the same
#: limit
KERNEL_WAIT: Final = 30_000
#: sequences of more kernels than this number are not reported
LONGEST: Final = 100
HOST_WAIT: Final = "host wait"
BEHIND: Final = "kernel wait"
OTHER: Final = "other"
_KINDS: Final = ("computation", "communication", "memory")
_BEHIND: Final = pl.Schema({"driver_ns": pl.Int64, "called_ns": pl.Int64, "call": pl.String})


def ran(device: tables.Device) -> pl.DataFrame:
    """Return all tasks and copies of a device, sorted by start.

    Args:
        device: the device, with its tasks and copies.

    Returns:
        `name`, `stream`, `start_ns`, `end_ns`, `launch_ns`, `driver_ns` (when the driver's launching call began), and
        `kind` (one of `_KINDS`).
    """
    columns = ("name", "stream", *intervals.BOUNDS, "launch_ns", "driver_ns")
    kind = pl.when("exchange").then(pl.lit(_KINDS[1])).otherwise(pl.lit(_KINDS[0])).alias("kind")
    copied = device.copies.with_columns(pl.col("launch_ns").alias("driver_ns"))
    copies = copied.select(*columns, pl.lit(_KINDS[2]).alias("kind"))
    return pl.concat([device.tasks.select(*columns, kind), copies]).sort("start_ns", "end_ns")


def launches(device: tables.Device) -> pl.DataFrame:
    """Return the work of a device whose launch is known, with the calls that launched it.

    Args:
        device: the device, with its tasks, copies and calls.

    Returns:
        The columns of `ran`; `call` (name of the launching call); `called_ns` (duration of this call); `delay_ns` (time
        from the end of the call to the start of the work; 0 if the work began before the call returned).
    """
    known = device.calls.select(
        pl.col("start_ns").alias("driver_ns"),
        (pl.col("end_ns") - pl.col("start_ns")).alias("called_ns"),
        pl.col("name").alias("call"),
    )
    found = (
        ran(device)
        .drop_nulls("launch_ns")
        .join(known.cast(_BEHIND).unique("driver_ns", keep="first"), on="driver_ns", how="left", maintain_order="left")
    )
    delay = pl.col("start_ns") - pl.col("driver_ns") - pl.col("called_ns")
    return found.with_columns(delay.clip(lower_bound=0).alias("delay_ns"))


def idle(device: tables.Device) -> pl.DataFrame:
    """Return the pauses of each stream: `stream`, `cause`, `start_ns`, `end_ns`.

    - host wait: the next task was launched after the pause had begun.
    - kernel wait: the next task was launched before the pause, and the pause lasted less than `KERNEL_WAIT`.
    - other: all other pauses, such as a pause before a task whose launch is unknown.

    Args:
        device: the device, with its tasks and copies.
    """
    before = pl.col("end_ns").cum_max().shift(1).over("stream").alias("since_ns")
    pauses = ran(device).with_columns(before).filter(pl.col("start_ns") > pl.col("since_ns"))
    brief = pl.col("start_ns") - pl.col("since_ns") < KERNEL_WAIT
    cause = (
        pl.when(pl.col("launch_ns") > pl.col("since_ns"))
        .then(pl.lit(HOST_WAIT))
        .when(brief)
        .then(pl.lit(BEHIND))
        .otherwise(pl.lit(OTHER))
    )
    return pauses.select(
        "stream", cause.alias("cause"), pl.col("since_ns").alias("start_ns"), pl.col("start_ns").alias("end_ns")
    )


def queue(device: tables.Device) -> pl.DataFrame:
    """Return the length of each stream's queue whenever it changes: `stream`, `time_ns`, `length`.

    The queue contains the launched tasks that have not begun.

    Args:
        device: the device, with its tasks and copies.
    """
    known = ran(device).drop_nulls("launch_ns")
    changes = pl.concat(
        [
            known.select("stream", pl.col("launch_ns").alias("time_ns"), pl.lit(1, pl.Int64).alias("change")),
            known.select("stream", pl.col("start_ns").alias("time_ns"), pl.lit(-1, pl.Int64).alias("change")),
        ]
    )
    return added_up(changes, "stream").rename({"value": "length"})


def added_up(changes: pl.DataFrame, key: str) -> pl.DataFrame:
    """Return the sum of all changes up to each time at which a value changes: the key, `time_ns`, `value`, sorted.

    Args:
        changes: the key, `time_ns` and `change`. For each key, all changes add up to 0.
        key: name of the column that tells the values apart, such as the stream.
    """
    ordered = changes.sort(key, "time_ns")
    last = (pl.col(key) != pl.col(key).shift(-1)) | (pl.col("time_ns") != pl.col("time_ns").shift(-1))
    # the changes of each key add up to 0, so a running sum over all keys starts at 0 for each key
    return ordered.select(key, "time_ns", value=pl.col("change").cum_sum()).filter(last.fill_null(True))


def kinds(device: tables.Device) -> pl.DataFrame:
    """Return the time of each combination of concurrent kinds of work, the longest time first.

    Args:
        device: the device, with its tasks and copies.

    Returns:
        `kinds` (such as `"computation + memory"`), `total_ns`.
    """
    everything = ran(device)
    line = intervals.timeline({kind: everything.filter(pl.col("kind") == kind) for kind in _KINDS})
    active = [pl.when(pl.col(kind) > 0).then(pl.lit(kind)) for kind in _KINDS]
    named = line.select(
        pl.concat_str(active, separator=" + ", ignore_nulls=True).alias("kinds"),
        (pl.col("end_ns") - pl.col("start_ns")).alias("total_ns"),
    )
    sums = named.filter(pl.col("kinds") != "").group_by("kinds").agg(pl.col("total_ns").sum())
    return sums.sort("total_ns", "kinds", descending=[True, False])


def around(kernels: pl.DataFrame, operators: pl.DataFrame) -> pl.DataFrame:
    """Return one row for each pair of a kernel and an operator that contains the kernel's launch.

    Args:
        kernels: `span` (the innermost operator around the launch, null if unknown), and any further columns.
        operators: `span`, `operator` (name of the operator), `parent` (`span` of the enclosing operator, null for an
            outermost operator).

    Returns:
        The columns of `kernels`, where `span` is now the operator of the row; and `operator`, its name.
    """
    columns = [*kernels.columns, "operator"]
    inner = kernels.drop_nulls("span").join(operators, on="span")
    found = [inner.select(columns)]
    while inner.height:
        outer = inner.drop_nulls("parent").with_columns(pl.col("parent").alias("span"))
        inner = outer.select(kernels.columns).join(operators, on="span")
        found.append(inner.select(columns))
    return pl.concat(found)


def sequences(kernels: pl.DataFrame) -> pl.DataFrame:
    """Return the different sequences of kernels that calls of operators launch, the longest total time first.

    Args:
        kernels: `operator`, `span` (one call of the operator), `name`, `start_ns`, `duration_ns`.

    Returns:
        `operator`, `kernels` (names in order of start, one a line), `length` (number of kernels in the sequence),
        `count` (number of calls that launched the sequence), `total_ns` (duration of its kernels in all these calls).
        Calls that launched more than `LONGEST` kernels are left out, because such long sequences do not repeat.
    """
    each = (
        kernels.filter(pl.len().over("span") <= LONGEST)
        .sort("start_ns")
        .group_by("span", maintain_order=True)
        .agg(
            pl.col("operator").first(),
            pl.col("name").str.join("\n").alias("kernels"),
            pl.len().cast(pl.Int64).alias("length"),
            pl.col("duration_ns").sum().alias("total_ns"),
        )
    )
    return (
        each.group_by("operator", "kernels", "length")
        .agg(pl.len().cast(pl.UInt64).alias("count"), pl.col("total_ns").sum())
        .sort("total_ns", "operator", "kernels", descending=[True, False, False])
    )
