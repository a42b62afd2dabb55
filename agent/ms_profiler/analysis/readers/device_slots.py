"""Device slots to tables: what our own tracing of an accelerator left in the store.

A kernel belongs to the call that launched it: both carry a number, which wraps, so that of several calls with it the
latest before the kernel counts. A call belongs to the moment and the thread that it was made on. What a run holds is
cut by these moments, not by when something ran.
"""

import re
from typing import Final

import polars as pl

from ms_profiler.analysis import tables
from ms_profiler.analysis.metrics import intervals, steps
from ms_profiler.analysis.readers import demangle, device_marks
from ms_profiler.analysis.readers.device_sources import SOURCES, DeviceSource
from ms_profiler.store.device_format import Device, Source
from ms_profiler.store.format import Kind

#: what a device did, one row a record, times of the recorder
RECORDS: Final = pl.Schema(
    {
        "process": pl.UInt32,
        "source": pl.UInt8,  # store.device_format.Source
        "type": pl.UInt8,  # store.device_format.Device
        "name": pl.UInt32,  # row of the names
        "detail": pl.UInt32,  # likewise
        "correlation": pl.UInt32,
        "native_tid": pl.UInt32,  # of the thread that called; 0 where not known
        "device": pl.UInt32,
        "stream": pl.UInt32,
        "context": pl.UInt32,
        "graph": pl.UInt32,
        "amount": pl.UInt64,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
    }
)
#: how much earlier than its launch a kernel may seem to begin: the clock of a device is brought to ours by a line
SLACK_NS: Final = 1_000_000
#: level of what tracing itself, and loading of code, took
OVERHEAD: Final = "overhead"
#: what stands for a kernel whose name was not told
UNNAMED: Final = "(kernel without a name)"

_HALF: Final = 2**32
_RAN: Final = (Device.KERNEL, Device.COMMUNICATION, Device.GRAPH)
_COPIED: Final = (Device.COPY, Device.SET)
_OVERHEADS: Final = (Device.OVERHEAD,)
_EXCHANGED: Final = pl.col("type") == int(Device.COMMUNICATION)
_SENT: Final = _EXCHANGED & (pl.col("amount") > 0)
#: at the end of the names of calls: the version since which they are so, and how streams are taken
_VERSION: Final = re.compile(r"(_ptsz|_ptds)?(_v\d+)?$")


def records(slots: pl.DataFrame, process: int) -> pl.DataFrame:
    """Return the records in the slots of a process, as `RECORDS`; of those that are not whole, nothing.

    Args:
        slots: `columns.slots.SLOTS`, of the kinds DEVICE and DEVICE_PLACE alone, in their order.
        process: pid.
    """
    following = slots.select(pl.all().shift(-1).name.prefix("next_"))
    both = pl.concat([slots, following], how="horizontal").filter(pl.col("kind") == Kind.DEVICE)
    placed = (pl.col("next_kind") == Kind.DEVICE_PLACE).fill_null(False)

    def low(word: str) -> pl.Expr:
        return (pl.col(word).reinterpret(signed=False) % _HALF).cast(pl.UInt32)

    def high(word: str) -> pl.Expr:
        return (pl.col(word).reinterpret(signed=False) // _HALF).cast(pl.UInt32)

    def where(value: pl.Expr) -> pl.Expr:
        return pl.when(placed).then(value).otherwise(0)

    return both.select(
        pl.lit(process, pl.UInt32).alias("process"),
        pl.col("flags").cast(pl.UInt8).alias("source"),
        pl.col("category").alias("type"),
        pl.col("id").alias("name"),
        where(pl.col("next_id")).alias("detail"),
        low("arg").alias("correlation"),
        high("arg").alias("native_tid"),
        where(low("next_start_ns")).alias("device"),
        where(high("next_start_ns")).alias("stream"),
        where(low("next_end_ns")).alias("context"),
        where(high("next_end_ns")).alias("graph"),
        where(pl.col("next_arg")).alias("amount"),
        "start_ns",
        "end_ns",
    ).cast(RECORDS)


def known(recording: tables.Recording, found: pl.DataFrame) -> pl.DataFrame:
    """Return the records of interfaces that are known; of others a line is left in the run's record.

    Args:
        recording: the run.
        found: `RECORDS`.
    """
    ours = pl.col("source").is_in([int(source) for source in SOURCES])
    others = found.filter(~ours).height
    if others:
        why = "a newer version of ms-profiler wrote them; use that one to analyse"
        recording.info.not_collected.append({"what": f"{others} records of a device", "why": why})
    return found.filter(ours)


def mark(recording: tables.Recording, found: pl.DataFrame) -> None:
    """Add the markers of the host that a device's interface told to the spans and instants of a recording.

    Args:
        recording: before what it leaves out is taken away.
        found: `RECORDS`, with times of the time line.
    """
    marks = _marks(recording, found)
    if marks.height:
        device_marks.attach(recording, marks.filter(pl.col("native_tid") > 0))


def attach(recording: tables.Recording, found: pl.DataFrame) -> None:
    """Give a recording its device, where anything ran on one.

    Args:
        recording: its steps, threads and names.
        found: `RECORDS`, with times of the time line.
    """
    ran = _of(found, _RAN)
    if ran.is_empty():
        return
    process = steps.choose(recording).process
    others = ran.filter(pl.col("process") != process)["process"].n_unique()
    if others:
        why = "the steps are those of another process, and kernels of one process are shown"
        recording.info.not_collected.append({"what": f"kernels of other processes, {others} of them", "why": why})
    own = found.filter(pl.col("process") == process)
    source = SOURCES[Source((own if own.height else found)["source"][0])]
    if "db" in (recording.info.options.get("export_type") or ()) and not source.in_database:
        why = f"the form of it has no place for kernels of a {source.activity}"
        recording.info.not_collected.append({"what": "the database", "why": why})
    calls = _named(_of(own, (Device.API,)), recording.names)
    launched = _launched(_of(own, _RAN), calls)
    tasks = cut(recording, launched, pl.coalesce("launch_ns", "start_ns"))
    calls = cut(recording, calls, pl.col("start_ns"))
    overheads = _named(cut(recording, _of(own, _OVERHEADS), pl.col("start_ns")), recording.names)
    copied = cut(recording, _launched(_of(own, _COPIED), calls), pl.coalesce("launch_ns", "start_ns"))
    tasks = tasks.sort("start_ns", "end_ns", maintain_order=True)
    several = pl.concat([tasks["device"], copied["device"]]).n_unique() > 1
    recording.device = tables.Device(
        source.form,
        _tasks(tasks, recording.names, several, source),
        [source.name],
        calls=pl.concat([_calls(calls, source.level), _calls(overheads, OVERHEAD)]).sort(
            "start_ns", maintain_order=True
        ),
        launches=on_threads(tasks, recording.threads)
        .with_columns(bytes=pl.when(_SENT).then("amount"), amount=pl.when(_EXCHANGED).then(0).otherwise("amount"))
        .select(tables.LAUNCHES.names())
        .cast(tables.LAUNCHES),
        copies=_copies(copied.sort("start_ns", "end_ns", maintain_order=True), recording, several),
        marks=device_marks.of_device(
            device_marks.wanted(recording, _marks(recording, own).filter(pl.col("native_tid") == 0)).sort("start_ns"),
            _lane(several),
        ),
    )


def _of(found: pl.DataFrame, kinds: tuple[Device, ...]) -> pl.DataFrame:
    return found.filter(pl.col("type").is_in([int(kind) for kind in kinds]))


def _marks(recording: tables.Recording, found: pl.DataFrame) -> pl.DataFrame:
    """Return the markers, with `text` and `domain`."""
    marks = cut(recording, _of(found, (Device.MARKER,)), pl.col("start_ns"))
    return _named(marks, recording.names).with_columns(recording.names.gather(marks["detail"]).alias("domain"))


def _calls(rows: pl.DataFrame, level: str) -> pl.DataFrame:
    return rows.select(
        pl.lit(level).alias("level"),
        pl.col("text").str.replace(_VERSION.pattern, "").alias("name"),
        "start_ns",
        "end_ns",
        pl.col("native_tid").cast(pl.Int64).alias("thread"),
    )


def _named(rows: pl.DataFrame, names: pl.Series) -> pl.DataFrame:
    return rows.with_columns(names.gather(rows["name"]).alias("text"))


def _launched(ran: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Add to what ran when and on which thread it was launched: `launch_ns`, `caller`, null where that is not known."""
    known = calls.select("correlation", "start_ns", pl.col("start_ns").alias("launch_ns"), caller="native_tid").sort(
        "start_ns"
    )
    latest = ran.with_columns(seen_ns=pl.col("start_ns") + SLACK_NS).sort("seen_ns")
    return latest.join_asof(
        known.rename({"start_ns": "called_ns"}),
        left_on="seen_ns",
        right_on="called_ns",
        by="correlation",
        strategy="backward",
        check_sortedness=False,
    )


def cut(recording: tables.Recording, ran: pl.DataFrame, moment: pl.Expr) -> pl.DataFrame:
    """Keep that of which some moment is in the run's own time, and in no step that its schedule leaves out.

    Args:
        recording: the run.
        ran: whatever.
        moment: of each row.
    """
    window = recording.info.window
    if window.get("start_ns"):
        start = recording.clock.epoch_ns(window["start_ns"])
        end = recording.clock.epoch_ns(window["end_ns"]) if window.get("end_ns") else tables.LATEST
        ran = ran.filter(moment >= start, moment < end)
    left_out = recording.steps.filter(~pl.col("recorded")).sort("start_ns")
    return ran.filter(intervals.locate(ran.select(moment).to_series(), left_out).is_null())


def _tasks(ran: pl.DataFrame, names: pl.Series, several: bool, source: DeviceSource) -> pl.DataFrame:
    texts, details = names.gather(ran["name"]), names.gather(ran["detail"])
    readable = demangle.names(texts.unique().to_list())
    text = texts.replace_strict(list(readable), list(readable.values()), return_dtype=pl.String).replace("", UNNAMED)
    exchange = (ran["type"] == int(Device.COMMUNICATION)) | text.str.contains(source.exchanges)
    core = details.str.strip_prefix(source.core_begin).replace({**source.cores, "": source.core})
    core = core.set(ran["type"] == int(Device.COMMUNICATION), source.core)  # which has its group there
    group = details.set(ran["type"] != int(Device.COMMUNICATION), "")
    return ran.select(
        _lane(several),
        text.alias("name"),
        pl.lit(None, pl.String).alias("type"),
        pl.when(exchange).then(pl.lit(source.exchange_core)).otherwise(core).alias("core"),
        pl.when(exchange).then(group).alias("group"),
        pl.lit(None, pl.String).alias("shapes"),
        "start_ns",
        "end_ns",
        exchange.alias("exchange"),
        "launch_ns",
        pl.col("launch_ns").alias("driver_ns"),
    ).cast(tables.TASKS)


def _lane(several: bool) -> pl.Expr:
    """Return the number of the stream; of several devices each has streams of the same numbers."""
    lane = pl.col("device") * 2**16 + pl.col("stream") if several else pl.col("stream")
    return lane.cast(pl.UInt32).alias("stream")


def _copies(ran: pl.DataFrame, recording: tables.Recording, several: bool) -> pl.DataFrame:
    name, direction = (recording.names.gather(ran[column]) for column in ("name", "detail"))
    return (
        on_threads(ran, recording.threads)
        .select(
            _lane(several),
            pl.Series("name", [f"{what} {way}".rstrip() for what, way in zip(name, direction, strict=True)], pl.String),
            (pl.col("type") == int(Device.SET)).alias("sets"),
            pl.col("amount").alias("bytes"),
            *("start_ns", "end_ns", "launch_ns", "thread", "correlation", "device", "context"),
        )
        .cast(tables.COPIES)
    )


def on_threads(ran: pl.DataFrame, threads: pl.DataFrame) -> pl.DataFrame:
    """Add the number of the `thread` that launched each, null where that recorded nothing.

    Args:
        ran: with `process` and `caller`, as the operating system numbers it.
        threads: `tables.THREADS`.
    """
    known = threads.filter(pl.col("native_tid") > 0).select(
        "process", "thread", pl.col("native_tid").cast(pl.UInt32).alias("caller")
    )
    return ran.join(
        known.unique(["process", "caller"], keep="last"), on=["process", "caller"], how="left", maintain_order="left"
    )
