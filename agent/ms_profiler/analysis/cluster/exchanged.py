"""The exchanges of a rank with other ranks: those of the script, of compiled graphs, and of a framework's C++ code."""

from typing import TYPE_CHECKING, Final

import polars as pl

from ms_profiler.analysis.metrics import communication, intervals, messages, replicas
from ms_profiler.analysis.metrics.handed_over import PASSED
from ms_profiler.analysis.model import tables

if TYPE_CHECKING:
    from ms_profiler.analysis.metrics.measures import Measures

#: one row per exchange, sorted by start
EXCHANGES: Final = pl.Schema(
    [
        ("group", pl.String),  # the group of ranks, as its framework names it; empty if unknown
        ("operation", pl.String),  # in lower case, without underscores
        ("bytes", pl.Int64),  # 0 where the size is not known
        ("start_ns", pl.Int64),  # when the rank was ready for the exchange
        ("end_ns", pl.Int64),
        # number of the step, or of the next step if it began between two steps; null before and after all steps
        ("step", pl.Int64),
        *messages.PEERS.items(),
    ]
)
#: a selection of the exchanges, which is enough for the comparison of ranks
MARKED: Final = pl.Schema(
    [
        *EXCHANGES.items(),
        ("own_ns", pl.Int64),  # time from the end of all earlier exchanges to its start; null for the first one
        ("number", pl.Int64),  # index among the exchanges of the same operation and group, from 0
        ("place", pl.Int64),  # number among the exchanges of the same operation and group in the step, from 1
        ("count", pl.Int64),  # number of exchanges of the same operation and group in the step
    ]
)
_COLUMNS: Final = ["group", "operation", "bytes", *intervals.BOUNDS, *messages.PEERS]


def exchanges(measures: "Measures") -> pl.DataFrame:
    """Return the exchanges of a rank with other ranks, with the columns of `EXCHANGES`.

    Args:
        measures: the measures of the rank's run.
    """
    recording = measures.recording
    if recording.device is not None and recording.device.tasks["exchange"].any():
        found = _of_device(measures, recording.device)
    else:
        kernels = measures.calls.filter(pl.col("bytes") > 0).select(_COLUMNS)
        called = communication.split(communication.called(measures.recording, measures.steps))
        ran = replicas.beside(recording, measures.steps)
        alone = ran.is_empty() and called.height <= kernels.height
        found = kernels if alone and not kernels.is_empty() else _joined(measures, called, ran)
    kernel = pl.coalesce(pl.col("operation").str.extract(replicas.NCCL), "operation")
    plain = kernel.str.to_lowercase().str.replace_all("_", "")
    found = found.with_columns(plain.alias("operation"), pl.col("group").fill_null("")).sort(*intervals.BOUNDS)
    step = steps(found["start_ns"], measures.steps.table)
    return found.with_columns(step).select(EXCHANGES.names()).cast(EXCHANGES)


def steps(starts: pl.Series, table: pl.DataFrame) -> pl.Series:
    """Return `step`: the number of the step in which each exchange began. Between two steps, it is the later one.

    Another rank that does not work between these steps makes the same exchange in the later step.

    Args:
        starts: the times at which the exchanges began, in ns.
        table: the steps, with the columns of `Steps.table`.
    """
    if table.is_empty():
        return pl.Series("step", [None] * len(starts), pl.Int64)
    following = table["end_ns"].search_sorted(starts, side="right").cast(pl.Int64)
    known = (starts >= table["start_ns"][0]) & (following < table.height)
    place = pl.select(pl.when(known).then(following)).to_series()
    return table["number"].gather(place).cast(pl.Int64).alias("step")


def marked(exchanges: pl.DataFrame) -> pl.DataFrame:
    """Return two kinds of exchanges of each step, with the columns of `MARKED`.

    They are the exchange with the longest own time, and the last exchange of each operation and group.

    Args:
        exchanges: all exchanges of a rank, with the columns of `EXCHANGES`.
    """
    kind, step = ["operation", "group"], pl.col("step")
    counted = exchanges.with_columns(
        own_ns=pl.col("start_ns") - pl.col("end_ns").cum_max().shift(1),
        number=pl.int_range(pl.len()).over(kind),
        place=pl.int_range(1, pl.len() + 1).over([*kind, "step"]),
        count=pl.len().over([*kind, "step"]),
    )
    own = pl.col("own_ns").fill_null(0)
    longest = pl.int_range(pl.len()).over("step") == own.arg_max().over("step")
    last = pl.col("place") == pl.col("count")
    return counted.filter(step.is_not_null(), longest | last).select(MARKED.names()).cast(MARKED)


def _of_device(measures: "Measures", device: tables.Device) -> pl.DataFrame:
    """Return the exchanges that a device ran.

    If the device's interface does not report the group and bytes of an exchange, they are taken from `measures.calls`.
    This table has group and bytes from the call that launched the exchange, or from a bucket of
    DistributedDataParallel.
    """
    own = device.tasks.with_columns(bytes=pl.lit(0, pl.Int64))
    if device.launches is not None:
        own = own.with_columns(device.launches["bytes"].fill_null(0))
    known = measures.calls.select("group", "bytes", *intervals.BOUNDS).unique(intervals.BOUNDS, keep="none")
    own = (
        own.filter("exchange")
        .join(known, on=intervals.BOUNDS, how="left", suffix="_known", maintain_order="left")
        .with_columns(
            pl.coalesce(pl.col("group").replace("", None), "group_known").alias("group"),
            pl.when(pl.col("bytes") > 0).then("bytes").otherwise(pl.col("bytes_known").fill_null(0)).alias("bytes"),
        )
    )
    if own["name"].str.starts_with(replicas.GLOO).any():  # gloo's threads make the exchanges; operators only queue them
        own = own.filter(~pl.col("name").str.starts_with(PASSED))
    names = own["name"].str.strip_prefix(replicas.GLOO)
    names = pl.Series("operation", [communication.operation(name) for name in names], dtype=pl.String)
    none = (pl.lit(None, kind).alias(name) for name, kind in messages.PEERS.items())
    return own.with_columns(names, *none).select(_COLUMNS)


def _joined(measures: "Measures", called: pl.DataFrame, ran: pl.DataFrame) -> pl.DataFrame:
    """Return gloo's exchanges without a call of the script, and the script's calls.

    A call lasts to the end of gloo's work for the call. An exchange without a call begins when the rank is ready for
    it, and ends when the rank leaves it. The times of gloo's own thread do not count.
    """
    calls = called.sort("start_ns")
    pairs = replicas.paired(calls, ran, measures.steps)
    taken = [row for rows in pairs for row in rows]
    known = replicas.known(measures.recording, measures.steps, calls, ran, pairs)
    awaited = ran.with_columns(replicas.awaited(measures.recording, measures.steps, ran))
    rest = awaited.with_row_index("place").filter(~pl.col("place").is_in(taken)).cast({"place": pl.Int64})
    alone = rest.join(known, on="place", how="left", maintain_order="left").select(
        pl.col("group").fill_null(""),
        pl.col("kind").alias("operation"),
        pl.col("bytes").fill_null(0),
        *intervals.BOUNDS,
    )
    made = calls.with_columns(replicas.ends(calls, ran, pairs)).select(_COLUMNS)
    kinds = pl.Schema([*alone.schema.items(), *messages.PEERS.items()])
    return pl.concat([made.cast(kinds), alone], how="diagonal")
