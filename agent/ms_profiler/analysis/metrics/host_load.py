"""Compute the load of the host from numbers that the operating system counts (`store.host_metrics`)."""

from collections.abc import Sequence
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals, steps
from ms_profiler.analysis.model import tables
from ms_profiler.store import host_metrics
from ms_profiler.store.host_metrics import Metric

_KEYS: Final = ("process", "name", "native_tid")
#: keys of a number, with the row of its name instead of the name, because numbers compare five times as fast as text
_ROWS: Final = ("process", "row", "native_tid")
#: largest number of values in a curve of a timeline, enough for six minutes at the usual rate. In longer runs, each
#: value is the mean of several samples
DRAWN: Final = 3600
#: largest number of points in time at which numbers are summed up at once: 50 MB
POINTS: Final = 1_000_000


def shown(recording: tables.Recording) -> pl.DataFrame:
    """Return the numbers of the operating system over time, with the columns of `tables.HOST`.

    Some numbers only grow, because the system counts events from its start. Such a number is turned into a rate:

        value = (number - number in the previous sample) * factor / seconds between the two samples

    A sample contains only the numbers that have changed since the sample before it.

    Args:
        recording: the recording of the run.
    """
    known = _known(recording)
    if known.is_empty():
        return pl.DataFrame(schema=tables.HOST)
    grows, time, seconds = pl.col("grows"), pl.col("time_ns"), (pl.col("time_ns") - pl.col("sample_ns")) / 1e9
    moved = known.filter(grows, pl.col("last").is_not_null()).with_columns(
        start_ns="sample_ns", end_ns=time, value=(pl.col("value") - pl.col("last")) * pl.col("factor") / seconds
    )
    # from this time until the sample before the next change, the number stays the same
    stays = known.with_columns(
        start_ns=time,
        end_ns=pl.when(grows).then("next_sample_ns").otherwise("next_ns").fill_null(pl.col("last_ns")),
        value=pl.when(grows).then(0.0).otherwise(pl.col("value") * pl.col("factor")),
    )
    columns = ["row", *tables.HOST]
    found = pl.concat([moved.select(columns), stays.select(columns)])
    found = found.filter(pl.col("end_ns") > pl.col("start_ns"), pl.col("value") >= 0)
    return found.sort(*_ROWS, "start_ns").drop("row")


def _known(recording: tables.Recording) -> pl.DataFrame:
    """Return each value of each number with its unit, its previous value and the times of neighbouring samples.

    Returns:
        The columns include: `last` (the previous value of the number), `next_ns` (time of its next value), `sample_ns`
        (time of the sample before this one), `next_sample_ns` (time of the sample before the next value), `last_ns`
        (time of the last sample of the process).
    """
    table, names = recording.metrics, recording.names
    known_names = [(row, name, host_metrics.metric(name)) for row in table["name"].unique() if (name := names[row])]
    kinds = pl.DataFrame(
        [(row, name, kind.unit, kind.factor, kind.grows) for row, name, kind in known_names if kind is not None],
        pl.Schema({"row": pl.UInt32, "title": pl.String, "unit": pl.String, "factor": pl.Float64, "grows": pl.Boolean}),
        orient="row",
    )
    rows = (names == host_metrics.SAMPLE).arg_true()
    samples = table.filter(pl.col("name").is_in(rows.implode())).sort("process", "time_ns")
    times = samples.select("process", "time_ns", sample_ns=pl.col("time_ns").shift(1).over("process"))
    known = (
        table.rename({"name": "row"})
        .join(kinds, on="row")
        .rename({"title": "name"})
        .join(times, on=["process", "time_ns"])
        .join(times.group_by("process").agg(last_ns=pl.col("time_ns").max()), on="process")
        .sort(*_ROWS, "time_ns")
    )
    return known.with_columns(
        names.gather(known["thread_name"]).alias("thread_name"),
        last=pl.col("value").shift(1).over(_ROWS),
        next_ns=pl.col("time_ns").shift(-1).over(_ROWS),
        next_sample_ns=pl.col("sample_ns").shift(-1).over(_ROWS),
    )


def averaged(known: pl.DataFrame, recording: tables.Recording, most: int) -> pl.DataFrame:
    """Return the means of the host's numbers over intervals. All numbers of a process have the same intervals.

    mean = sum(value * time) / sum(time), over each interval

    Args:
        known: the numbers over time, from `shown`.
        recording: the recording of the run.
        most: largest number of intervals per process. If a process has more samples, each interval covers several
            samples.
    """
    rows = (recording.names == host_metrics.SAMPLE).arg_true()
    samples = recording.metrics.filter(pl.col("name").is_in(rows.implode())).sort("process", "time_ns")
    every = (pl.len() + most - 1) // most
    times = samples.filter((pl.int_range(pl.len()) % every == 0).over("process")).select("process", "time_ns")
    # one query for all numbers: a query for each takes a millisecond, and there are some hundred numbers
    numbered = known.with_columns(number=pl.struct("process", "name", "native_tid", "unit").rle_id())
    extent = numbered.group_by("number").agg(pl.col("process", "start_ns").first(), pl.col("end_ns").last())
    points = extent.join(times, on="process").filter(pl.col("time_ns").is_between("start_ns", "end_ns"))
    summed = _integrals(numbered.lazy(), points.select("number", "time_ns").sort("number", "time_ns").lazy()).collect()
    next_ns, grown = pl.col("time_ns").shift(-1), pl.col("sum").shift(-1) - pl.col("sum")
    cut = summed.with_columns(
        start_ns="time_ns",
        end_ns=next_ns.over("number"),
        value=(grown * 1e9 / (next_ns - pl.col("time_ns"))).over("number"),
    )
    return cut.drop_nulls("end_ns").select(list(tables.HOST))


def draw(recording: tables.Recording) -> None:
    """Fill `Recording.host`, and add its numbers to the counters that timelines show.

    Numbers of the whole stepping process become counters of the stepping thread. Numbers of any other whole process
    become counters of its first thread.

    Args:
        recording: the recording; it is changed in place.
    """
    recording.host = shown(recording)
    known = averaged(recording.host, recording, DRAWN)
    known = known.filter((pl.col("value").max() > 0).over(_KEYS))
    if known.is_empty() or recording.threads.is_empty():
        return
    stepping, own = steps.marked(recording), recording.threads.select("process", "native_tid", "thread")
    lanes = own.group_by("process").agg(lane=pl.col("thread").min())
    first = pl.when(pl.col("process") == stepping.process).then(pl.lit(stepping.thread, pl.UInt32)).otherwise("lane")
    placed = (
        known.join(own.unique(["process", "native_tid"]), on=["process", "native_tid"], how="left")
        .join(lanes, on="process")
        .with_columns(thread=pl.when(pl.col("native_tid") == 0).then(first).otherwise("thread"))
        .drop_nulls("thread")
        .with_columns(title=pl.format("{} ({})", "name", "unit"))
    )
    if placed.is_empty():  # the threads of the processes are unknown, for example because their names are damaged
        return
    titles = placed["title"].unique(maintain_order=True)
    rows = pl.int_range(len(recording.names), len(recording.names) + len(titles), dtype=pl.UInt32, eager=True)
    recording.names = recording.names.append(titles.rename("name"))
    counted = placed.select(
        "process",
        "thread",
        pl.col("title").replace_strict(titles, rows, return_dtype=pl.UInt32).alias("name"),
        pl.col("start_ns").alias("time_ns"),
        "value",
    )
    recording.counters = pl.concat([recording.counters, counted]).sort("process", "name", "time_ns")


def amounts(known: pl.DataFrame, metrics: Sequence[Metric], during: pl.DataFrame) -> pl.Series | None:
    """Return the amount counted in each interval, in the metrics' unit times seconds; None without these metrics.

    amount = sum(value * seconds in the interval), over all processes. A value is constant between two samples.

    Args:
        known: the numbers over time, from `shown`.
        metrics: the metrics that are added up.
        during: the intervals, `start_ns` and `end_ns`, without overlap, sorted by time.
    """
    own = known.filter(pl.col("name").is_in([metric.name for metric in metrics]))
    if own.is_empty():
        return None
    # few queries for all numbers: a query for each takes a millisecond, and each worker of a data loader has some
    numbered = own.with_columns(number=pl.struct("process", "name").rle_id()).lazy()
    numbers = numbered.select("number").unique().sort("number").collect()
    times = during.select(time_ns=pl.concat_list(*intervals.BOUNDS)).explode("time_ns").with_row_index("place").lazy()
    total = pl.zeros(2 * during.height, dtype=pl.Float64, eager=True)
    for some in numbers.iter_slices(max(POINTS // max(len(total), 1), 1)):
        part = numbered.filter(pl.col("number").is_between(some["number"][0], some["number"][-1]))
        summed = _integrals(part, some.lazy().join(times, how="cross").sort("number", "place"))
        found = summed.group_by("place").agg(pl.col("sum").fill_null(0.0).sum()).sort("place").collect()
        total = total + found["sum"]
    return total.gather_every(2, 1) - total.gather_every(2)


def beside(host: pl.DataFrame, process: int, during: pl.DataFrame, ranks: int = 1) -> pl.Series | None:
    """Return the seconds of processor time that other processes took in each interval; None if it is unknown.

    The result may be below 0 by a little, because the numbers of the job and of the machine are not of one moment.

    Args:
        host: the numbers over time, from `shown`.
        process: the process whose samples have the numbers of the whole machine.
        during: the intervals, `start_ns` and `end_ns`, without overlap, sorted by time.
        ranks: the number of ranks of the job. Other ranks have separate results, so each of them is assumed to use as
            much processor time as this rank.
    """
    job = amounts(host, (host_metrics.USER, host_metrics.SYSTEM), during)
    seen = host.filter(pl.col("process") == process)
    busy = amounts(seen, (*host_metrics.BUSY, *host_metrics.INTERRUPTS), during)
    if busy is None:
        return None
    return busy if job is None else busy - job * ranks


def integral(part: pl.DataFrame, times: pl.Series) -> pl.Series:
    """Return for each time the sum of value * seconds over the intervals up to this time.

    Args:
        part: intervals with a `value`, without overlap, sorted by time.
        times: the times, in ns, sorted.
    """
    number = pl.lit(0, pl.UInt32).alias("number")
    points = pl.DataFrame({"time_ns": times}).with_columns(number)
    return _integrals(part.lazy().with_columns(number), points.lazy()).collect()["sum"].fill_null(0.0)


def _integrals(parts: pl.LazyFrame, points: pl.LazyFrame) -> pl.LazyFrame:
    """Return the points with `sum`: the sum of value * seconds over the intervals of their number up to their time.

    The result has the interval of each point, too. It has no interval and no sum before the first interval.

    Args:
        parts: intervals with a `value` of each `number`, without overlap, sorted by number and time.
        points: `number` and `time_ns`, sorted by both.
    """
    whole = pl.col("value") * (pl.col("end_ns") - pl.col("start_ns")) / 1e9
    summed = parts.with_columns(before=(whole.cum_sum() - whole).over("number"))
    placed = points.join_asof(summed, left_on="time_ns", right_on="start_ns", by="number", check_sortedness=False)
    length = pl.min_horizontal("time_ns", "end_ns") - pl.col("start_ns")
    return placed.with_columns(sum=pl.col("before") + pl.col("value") * length / 1e9)
