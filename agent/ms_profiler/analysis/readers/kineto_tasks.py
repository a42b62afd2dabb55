"""Read the work of a device in a Kineto trace: kernels, copies, waits and annotations, and the calls that launched
them.

A call of the runtime and the task that it launched share a `correlation`. In a trace without correlations, an arrow
(`ac2g`) leads from the call to the task.

A kernel of NCCL exchanges data. Its argument `Collective name` is the operation. If the argument is missing, the name
of the call on the host that launched the kernel tells the operation (`nccl:all_to_all`, `c10d::recv_`). The kernel's
name is not enough, because NCCL uses the same kernel for receive and all-to-all. The kernel sends `In msg nelems`
elements of type `dtype`.
"""

from dataclasses import dataclass, field
from typing import Final

import polars as pl

from ms_profiler.analysis.columns import COLUMNS
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import driver_calls, kineto_kinds as kinds, trace_events

_GROUP: Final = "Process Group Name"
_RANKS: Final = "Process Group Ranks"
_SIZE: Final = "Group size"
_COLLECTIVE: Final = "Collective name"
_ELEMENTS: Final = "In msg nelems"
#: arguments of events that this module reads
ARGUMENTS: Final = (
    *("stream", "device", "context", "correlation", "bytes"),
    *(_GROUP, _RANKS, _SIZE, _COLLECTIVE, _ELEMENTS, "dtype"),
)
#: PyTorch's name of a type (c10/core/ScalarType.h) -> bytes of an element
_ELEMENT_BYTES: Final = {
    **dict.fromkeys(("Byte", "Char", "Bool", "QInt8", "QUInt8"), 1),
    **dict.fromkeys(("Float8_e5m2", "Float8_e4m3fn", "Float8_e5m2fnuz", "Float8_e4m3fnuz", "Float8_e8m0fnu"), 1),
    **dict.fromkeys(("Short", "UInt16", "Half", "BFloat16"), 2),
    **dict.fromkeys(("Int", "UInt32", "Float", "QInt32", "ComplexHalf"), 4),
    **dict.fromkeys(("Long", "UInt64", "Double", "ComplexFloat"), 8),
    "ComplexDouble": 16,
}
#: pattern of the host's calls of NCCL; its group is the operation
_COLLECTIVES: Final = r"^(?:c10d::|nccl:)_?(\w+?)_?(?:\s|$)"
_EXCHANGES: Final = r"(?i)^(nccl|rccl|msccl|oneccl)|ncclKernel|ncclDevKernel"
#: pattern of the number at the end of a lane's name, for events without the argument `stream`
_LANE: Final = r"(\d+)\s*$"
#: with several devices: lane = device * _LANES + stream
_LANES: Final = 2**16
_NO_STREAM: Final = 2**32 - 1
#: Report missing kernels if the trace has at least `_LEAST` launches, and if the kernels of more than the share `_LOST`
#: of these launches are missing.
_LEAST: Final = 10
_LOST: Final = 0.2
#: name of a wait in a trace -> its name in ms-profiler's own tracing
_WAITS: Final = {
    "Stream Sync": "stream synchronize",
    "Stream Synchronize": "stream synchronize",
    "Context Sync": "context synchronize",
    "Context Synchronize": "context synchronize",
    "Device Sync": "context synchronize",
    "Event Sync": "event synchronize",
    "Event Synchronize": "event synchronize",
    "Stream Wait Event": "stream waits for event",
}


@dataclass
class Found:
    """The tables of a device.

    Attributes:
        device: the tables of the device.
        ran: whether anything ran on the device.
        missing: a clause that says which work of the device the trace lacks; empty for a complete trace.
        callers: name of a table (`launches`, `copies`, `waits`) -> for each row, the native id of the thread that
            made its call, as text.
    """

    device: tables.Device
    ran: bool
    missing: str
    callers: dict[str, pl.Series] = field(default_factory=dict)


def read(events: trace_events.Events, every: pl.DataFrame, name: str) -> Found:
    """Return the work of the devices in a trace.

    Args:
        events: the events of the trace, with `ARGUMENTS`.
        every: the spans of the trace with their kinds, from `kineto_kinds.added`. Some spans have no end, so their
            durations are unknown.
        name: the kind of the device, such as "GPU".
    """
    spans = every.filter(~pl.col("unfinished"))
    endless = every.filter(pl.col("unfinished"), pl.col("kind") == kinds.KERNEL).height
    on_device = (kinds.KERNEL, kinds.COPY, kinds.SET, kinds.SYNC, kinds.MARK)
    placed = _placed(events, spans.filter(pl.col("kind").is_in(on_device)))
    called = spans.filter(pl.col("kind") == kinds.RUNTIME)
    calls = called.with_columns(events.found_of(called, "correlation"))
    launched = _launched(events, placed, calls)
    kernels = launched.filter(pl.col("kind") == kinds.KERNEL)
    copies = launched.filter(pl.col("kind").is_in([kinds.COPY, kinds.SET]))
    waits = launched.filter(pl.col("kind") == kinds.SYNC)
    exchanged = _exchanges(events, spans, kernels)
    device = tables.Device(
        tables.Form.KINETO,
        _tasks(kernels, exchanged, name),
        [],
        calls=_calls(calls),
        launches=_launches(kernels, exchanged),
        copies=_copies(copies),
        waits=_waits(waits),
        marks=_marks(launched.filter(pl.col("kind") == kinds.MARK)),
        exchanged=exchanged.select(tables.EXCHANGED.names()).cast(tables.EXCHANGED),
    )
    callers = {"launches": kernels["caller"], "copies": copies["caller"], "waits": waits["caller"]}
    return Found(device, kernels.height + copies.height > 0, _missing(calls, launched, kernels, endless), callers)


def _missing(calls: pl.DataFrame, launched: pl.DataFrame, kernels: pl.DataFrame, endless: int) -> str:
    """Return a clause that says which work of the device the trace lacks; empty for a complete trace.

    A trace may be incomplete because other tools cut, filter and rewrite traces. The thresholds come from 49 traces of
    GPUs. In these traces, each launch had its kernel. At most 8 % of the kernels took less than a microsecond. Old
    versions of PyTorch wrote these durations as 0.
    """
    brief = endless + kernels.filter(pl.col("end_ns") <= pl.col("start_ns")).height
    if brief >= _LEAST and brief > _LOST * (kernels.height + endless):
        return f"{brief:,} of {kernels.height + endless:,} kernels have no durations in the trace"
    launches = calls.filter(pl.col("name").str.contains(driver_calls.LAUNCHES))
    known = launches["correlation"].cast(pl.Int64, strict=False).drop_nulls()
    known = known.filter(known != 0)
    lost = known.len() - int(known.is_in(launched["correlation"].drop_nulls().implode()).sum())
    if known.len() >= _LEAST and lost > _LOST * known.len():
        return f"{lost:,} of {known.len():,} kernels that were launched are not in the trace"
    if kernels["correlation"].drop_nulls().len() >= _LEAST and calls.is_empty():
        return "the calls that launched its kernels are not in the trace"
    return ""


def _placed(events: trace_events.Events, spans: pl.DataFrame) -> pl.DataFrame:
    """Add `device`, `lane`, `context`, `correlation` and `bytes` to the spans of devices."""
    described = spans.with_columns(events.found_of(spans, "stream", "device", "context", "correlation", "bytes"))
    number = described.with_columns(
        pl.coalesce("device", "pid").cast(pl.UInt32, strict=False).fill_null(0).alias("device"),
        pl.coalesce("stream", pl.col("tid").str.extract(_LANE, 1)).cast(pl.Int64, strict=False).alias("lane"),
        pl.col("context").cast(pl.UInt32, strict=False).fill_null(0),
        pl.col("correlation").cast(pl.Int64, strict=False),
        pl.col("bytes").cast(pl.UInt64, strict=False),
    )
    several = number["device"].n_unique() > 1
    lane = pl.when(pl.col("lane").is_between(0, _LANES - 1)).then(pl.col("lane") % _LANES)
    wide = pl.col("lane").is_between(0, _NO_STREAM - 1)
    place = lane + pl.col("device") * _LANES if several else pl.when(wide).then("lane")
    unnumbered = pl.when(pl.col("kind") == kinds.SYNC).then(pl.lit(_NO_STREAM)).otherwise(0)
    return number.with_columns(pl.coalesce(place, unnumbered).cast(pl.UInt32).alias("lane"))


def _launched(events: trace_events.Events, ran: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Add `launch_ns` and `caller`, the time and the thread of each task's launch; null if unknown."""
    known = (
        calls.select(
            pl.col("correlation").cast(pl.Int64, strict=False),
            pl.col("start_ns").alias("launch_ns"),
            pl.col("tid").alias("caller"),
        )
        .drop_nulls()
        # some tools write correlation 0 for "no correlation". So use the number 0 only if a single call has it
        .filter((pl.col("correlation") != 0) | (pl.len().over("correlation") == 1))
        .unique("correlation", keep="first")
    )
    found = ran.join(known, on="correlation", how="left", maintain_order="left")
    if events.flows.is_empty() or not found["launch_ns"].has_nulls():
        return found
    # an arrow's end belongs to the event that begins on the same thread at the same time
    ends = events.flows.filter(~pl.col("begin")).select("category", "id", "tid", pl.col("time_ns").alias("start_ns"))
    begins = events.flows.filter("begin").select(
        "category", "id", pl.col("time_ns").alias("sent_ns"), pl.col("tid").alias("sender")
    )
    arrows = ends.join(begins.unique(["category", "id"], keep="first"), on=["category", "id"])
    arrows = arrows.filter(pl.col("tid") != pl.col("sender")).unique(["tid", "start_ns"], keep="first")
    led = found.join(arrows, on=["tid", "start_ns"], how="left", maintain_order="left")
    return led.with_columns(pl.coalesce("launch_ns", "sent_ns"), pl.coalesce("caller", "sender")).select(found.columns)


def _exchanges(events: trace_events.Events, spans: pl.DataFrame, kernels: pl.DataFrame) -> pl.DataFrame:
    """Return `exchange`, `purpose`, `group`, `ranks`, `size`, `dtype` and `bytes` of each kernel."""
    exchange = kernels["name"].str.contains(_EXCHANGES)
    fields = (_GROUP, _RANKS, _SIZE, _COLLECTIVE, _ELEMENTS, "dtype")
    arguments = kernels.select("row").with_columns(events.found_of(kernels, *fields))
    purpose = arguments[_COLLECTIVE]
    if exchange.any() and purpose.filter(exchange).has_nulls():
        purpose = pl.select(pl.coalesce(purpose, _purposes(spans, kernels))).to_series()
    element = pl.col("dtype").replace_strict(_ELEMENT_BYTES, default=None, return_dtype=pl.Int64)
    return arguments.select(
        exchange.alias("exchange"),
        purpose.alias("purpose"),
        pl.col(_GROUP).fill_null("").alias("group"),
        pl.col(_RANKS).alias("ranks"),
        pl.col(_SIZE).cast(pl.Int64, strict=False).alias("size"),
        "dtype",
        (pl.col(_ELEMENTS).cast(pl.Int64, strict=False) * element).alias("bytes"),
    )


def _purposes(spans: pl.DataFrame, kernels: pl.DataFrame) -> pl.Series:
    """Return, for each kernel, the operation of the collective call that launched it; null for other kernels."""
    named = spans.filter(pl.col("name").str.starts_with("c10d::") | pl.col("name").str.starts_with("nccl:"))
    calls = named.select(
        "tid", "start_ns", "end_ns", pl.col("name").str.extract(_COLLECTIVES).alias("purpose")
    ).drop_nulls("purpose")
    launches = kernels.select(
        pl.col("caller").alias("tid"), pl.col("launch_ns").alias("start_ns"), pl.col("launch_ns").alias("end_ns")
    ).with_row_index("task")
    both = pl.concat([calls, launches.drop_nulls()], how="diagonal")
    nested = COLUMNS.nest(both["tid"].rank("dense").cast(pl.UInt64), both["start_ns"], both["end_ns"])
    around = both[nested["row"]].with_columns(both["purpose"].gather(nested["row"].gather(nested["parent"])))
    found = launches.join(around.drop_nulls("task"), on="task", how="left", maintain_order="left")
    return found["purpose"]


def _tasks(kernels: pl.DataFrame, exchanged: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return the kernels as `tables.TASKS`, sorted by start, like the given kernels."""
    return kernels.select(
        pl.col("lane").alias("stream"),
        "name",
        exchanged["purpose"].set(~exchanged["exchange"], None).alias("type"),
        pl.lit(name).alias("core"),
        exchanged["group"].set(~exchanged["exchange"], None).alias("group"),
        pl.lit(None, pl.String).alias("shapes"),
        "start_ns",
        "end_ns",
        exchanged["exchange"],
        "launch_ns",
        pl.col("launch_ns").alias("driver_ns"),
    ).cast(tables.TASKS)


def _launches(kernels: pl.DataFrame, exchanged: pl.DataFrame) -> pl.DataFrame:
    return kernels.select(
        pl.lit(None, pl.UInt32).alias("thread"),
        (pl.col("correlation").fill_null(0) % 2**32).alias("correlation"),
        "device",
        "context",
        pl.lit(0).alias("graph"),
        pl.lit(0).alias("amount"),
        exchanged["bytes"].set(~exchanged["exchange"], None).alias("bytes"),
    ).cast(tables.LAUNCHES)


def _copies(copies: pl.DataFrame) -> pl.DataFrame:
    return copies.select(
        pl.col("lane").alias("stream"),
        "name",
        (pl.col("kind") == kinds.SET).alias("sets"),
        "bytes",
        *("start_ns", "end_ns", "launch_ns"),
        pl.lit(None, pl.UInt32).alias("thread"),
        (pl.col("correlation").fill_null(0) % 2**32).alias("correlation"),
        *("device", "context"),
    ).cast(tables.COPIES)


def _waits(waits: pl.DataFrame) -> pl.DataFrame:
    return waits.select(
        pl.col("lane").alias("stream"),
        pl.col("name").replace(_WAITS),
        *("start_ns", "end_ns"),
        pl.lit(None, pl.UInt32).alias("thread"),
        (pl.col("correlation").fill_null(0) % 2**32).alias("correlation"),
        "context",
    ).cast(tables.WAITS)


def _marks(marks: pl.DataFrame) -> pl.DataFrame:
    return marks.select(pl.col("lane").alias("stream"), "name", pl.lit("").alias("domain"), "start_ns", "end_ns").cast(
        tables.MARKS
    )


def _calls(calls: pl.DataFrame) -> pl.DataFrame:
    levels = {category: level for category, (_, level) in kinds.RUNTIMES.items()}
    level = pl.col("category").str.to_lowercase().replace_strict(levels, default="", return_dtype=pl.String)
    # traces give ROCm's calls the category of CUDA's calls
    level = pl.when(pl.col("name").str.starts_with("hip")).then(pl.lit("hip")).otherwise(level)
    return calls.select(
        level.alias("level"),
        "name",
        "start_ns",
        "end_ns",
        pl.col("tid").cast(pl.Int64, strict=False).fill_null(0).alias("thread"),
    ).cast(tables.DRIVER_CALLS)
