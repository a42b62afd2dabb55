"""Slots of the store, and the spans among them."""

from dataclasses import dataclass

import polars as pl

from ms_profiler.analysis.model.clock import Clock
from ms_profiler.store.device_format import Device
from ms_profiler.store.format import CATEGORY_FINE, Kind

#: the fields of a slot, and the number of the thread that wrote it
SLOTS = pl.Schema(
    {
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "arg": pl.UInt64,
        "id": pl.UInt32,
        "kind": pl.UInt8,
        "category": pl.UInt8,
        "flags": pl.UInt8,
        "thread": pl.UInt32,
    }
)

#: columns of `model.tables.UNNESTED` in a slot; times are nanoseconds since the epoch
DECODED = pl.Schema(
    {
        "thread": pl.UInt32,
        "name": pl.UInt32,
        "category": pl.UInt8,
        "flags": pl.UInt8,
        "unfinished": pl.Boolean,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "arg": pl.UInt64,
    }
)

#: summary of the fine-grained spans in a piece; RAW times
FINE = pl.Schema(
    {
        "count": pl.Int64,
        "lost": pl.Int64,  # number of these spans whose name is missing
        "first_ns": pl.Int64,  # start; 2**63 - 1 without any
        "last_start_ns": pl.Int64,  # -2**63 without any
        "last_ns": pl.Int64,  # end; likewise
        "thread": pl.UInt32,  # of the last slot
    }
)

#: calls of an accelerator's driver or its runtime, on the host; times are nanoseconds since the epoch
CALLS = pl.Schema(
    {
        "name": pl.UInt32,
        "correlation": pl.UInt32,
        "native_tid": pl.UInt32,  # number of the calling thread; 0 where not known
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
    }
)

#: columns of device records; unknown values are 0
RAN = pl.Schema(
    {
        "type": pl.UInt8,  # store.device_format.Device
        "name": pl.UInt32,
        "detail": pl.UInt32,  # likewise a name
        "correlation": pl.UInt32,
        "device": pl.UInt32,
        "stream": pl.UInt32,
        "context": pl.UInt32,
        "graph": pl.UInt32,
        "amount": pl.UInt64,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "source": pl.UInt8,  # store.device_format.Source
    }
)
#: with the thread of the operating system that caused it
CAUSED = pl.Schema({**RAN, "native_tid": pl.UInt32()})
#: types of records that compute or exchange data
TASKS = (Device.KERNEL, Device.COMMUNICATION, Device.GRAPH)

#: thread of the slots before the first one that names a thread
NO_THREAD = 2**32 - 1

IS_SPAN = pl.col("kind").is_between(Kind.OPEN, Kind.SPAN)
#: records that do not end before they start
FORWARDS = (pl.col("end_ns") >= pl.col("start_ns")) | (pl.col("kind") == Kind.OPEN)


@dataclass(frozen=True)
class Wanted:
    """The selection of slots, and the meaning of their numbers.

    Attributes:
        names: the name of each id, UInt32; `lost` if an id has none.
        lost: the name of ids that have none.
        clock: the clock of the run.
        last_ns: the end of spans without an end, RAW.
        window: start and end of the run, RAW; 0 for no bound.
        between: two times, ns since the epoch: the spans that begin from the first time on and before the second.
        fine: whether to select fine-grained spans only.
    """

    names: pl.Series
    lost: int
    clock: Clock
    last_ns: int
    window: tuple[int, int]
    between: tuple[int, int]
    fine: bool


@dataclass(frozen=True)
class Coarse:
    """Slots without the fine-grained spans of the run, and a summary of these spans. Times are RAW.

    Attributes:
        table: `SLOTS`.
        fine: the fine-grained spans of each piece, as `FINE`.
        starts: the begins of some of these spans, Int64.
    """

    table: pl.DataFrame
    fine: pl.DataFrame
    starts: pl.Series


@dataclass(frozen=True)
class Traced:
    """The records of an accelerator's tracing.

    Attributes:
        calls: the calls, as `CALLS`.
        ran: the records whose type is in TASKS, as `RAN`.
        others: the records of other types, as `CAUSED`.
    """

    calls: pl.DataFrame
    ran: pl.DataFrame
    others: pl.DataFrame


def decoded(spans: pl.DataFrame, wanted: Wanted) -> pl.DataFrame:
    """Return spans of the run as `DECODED`.

    Args:
        spans: rows of `SLOTS`.
        wanted: the selection of spans, and the meaning of their numbers.
    """
    began, (first, last) = wanted.clock.epoch(spans["start_ns"]), wanted.between
    chosen = (began >= first) & (began < last)
    if wanted.fine:
        chosen &= spans["category"] >= CATEGORY_FINE
    spans = spans.filter(chosen)
    unfinished = spans["kind"] == Kind.OPEN
    ends = spans["end_ns"].zip_with(~unfinished, pl.Series([wanted.last_ns]))
    return spans.with_columns(
        names_of(spans["id"], wanted.names, wanted.lost),
        began.filter(chosen),
        wanted.clock.epoch(ends),
        unfinished=unfinished,
    ).select(DECODED.names())


def names_of(ids: pl.Series, names: pl.Series, lost: int) -> pl.Series:
    """Return the name of each id, `name`; `lost` where there is none.

    Args:
        ids: UInt32.
        names: UInt32, by id.
        lost: the name of ids that have none.
    """
    known = ids.to_frame("id").select(pl.when(pl.col("id") < len(names)).then("id")).to_series()
    return names.gather(known).fill_null(lost).rename("name")


def within(slots: pl.DataFrame, between: tuple[int, int]) -> pl.DataFrame:
    """Return the slots that begin in a part of a store.

    Args:
        slots: `SLOTS`.
        between: the begin of the part, and its end or 0 for none; RAW times.
    """
    begins = pl.col("start_ns") >= between[0]
    return slots.filter(begins & (pl.col("start_ns") < between[1]) if between[1] else begins)
