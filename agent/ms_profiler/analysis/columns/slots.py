"""The columns of tables that the files of a recording are decoded into.

A slot is a record of 32 bytes in such a file (see `store.format`). It has a span, or another kind of event.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from ms_profiler.analysis.model.clock import Clock
from ms_profiler.store.device_format import Device
from ms_profiler.store.format import CATEGORY_FINE, LATEST_NS, Kind

#: the fields of a slot, as `store.format` describes them, and the number of the thread that wrote the slot
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

#: the columns of `model.tables.UNNESTED` that a slot has; times are nanoseconds since the epoch
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

#: summary of the fine-grained spans (modules and operators) in a piece of a store. Times are nanoseconds of
#: CLOCK_MONOTONIC_RAW, which other comments of this module call RAW
FINE = pl.Schema(
    {
        "count": pl.Int64,
        "lost": pl.Int64,  # number of these spans whose name is missing
        "first_ns": pl.Int64,  # earliest start; 2**63 - 1 without any span
        "last_start_ns": pl.Int64,  # latest start; -2**63 without any span
        "last_ns": pl.Int64,  # latest end; -2**63 without any span
        "thread": pl.UInt32,  # thread of the last slot
    }
)

#: calls of an accelerator's driver or its runtime, on the host; times are nanoseconds since the epoch
CALLS = pl.Schema(
    {
        "name": pl.UInt32,
        "correlation": pl.UInt32,
        "native_tid": pl.UInt32,  # the operating system's number of the calling thread; 0 if unknown
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
    }
)

#: Columns of device records; a value of 0 means unknown. `Traced.narrowed` may store the columns of `NARROW` in fewer
#: bytes.
RAN = pl.Schema(
    {
        "type": pl.UInt8,  # store.device_format.Device
        "name": pl.UInt32,
        "detail": pl.UInt32,  # row of names, as `name`
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
#: columns whose numbers are usually small, so that fewer bytes are enough
NARROW = ("name", "detail", "device", "stream", "context", "graph", "amount")
_UNSIGNED = {8: pl.UInt8(), 16: pl.UInt16(), 32: pl.UInt32(), 64: pl.UInt64()}
#: the columns of `RAN`, and the operating system's number of the thread that caused the work
CAUSED = pl.Schema({**RAN, "native_tid": pl.UInt32()})
_NO_CALLS, _NO_TASKS, _NO_CAUSED = (pl.DataFrame(schema=schema) for schema in (CALLS, RAN, CAUSED))
#: types of device records whose work computes, or exchanges data with other ranks
TASKS = (Device.KERNEL, Device.COMMUNICATION, Device.GRAPH)

#: A THREAD slot names the thread of the slots that follow it. Slots before the first one get this thread number.
NO_THREAD = 2**32 - 1

IS_SPAN = pl.col("kind").is_between(Kind.OPEN, Kind.SPAN)
#: earliest and latest time that an undamaged slot can have, RAW ns
TIMES = (0, LATEST_NS - 1)
#: whether the times of a slot are possible, and start <= end. The end of a span that is still open is not compared
FORWARDS = (
    ((pl.col("end_ns") >= pl.col("start_ns")) | (pl.col("kind") == Kind.OPEN))
    & pl.col("start_ns").is_between(*TIMES)
    & pl.col("end_ns").is_between(*TIMES)
)


@dataclass(frozen=True)
class Wanted:
    """Which slots to decode, and what the numbers in them mean.

    Attributes:
        names: id of a string -> row of `Recording.names`, UInt32; `lost` for an id without a string.
        lost: row of `Recording.names` for ids without a string.
        clock: the clock of the run, which converts times to ns since the epoch.
        last_ns: the end that spans without an end get, RAW.
        window: start and end of the run, RAW; 0 for no bound.
        between: (first, last), ns since the epoch: select spans with first <= begin < last.
        fine: whether to select only fine-grained spans (modules and operators).
        possible: earliest and latest time that an undamaged slot of the process can have, RAW.
    """

    names: pl.Series
    lost: int
    clock: Clock
    last_ns: int
    window: tuple[int, int]
    between: tuple[int, int]
    fine: bool
    possible: tuple[int, int] = TIMES


@dataclass(frozen=True)
class Coarse:
    """The slots of a run without the fine-grained spans, and a summary of these spans. Times are RAW.

    Attributes:
        table: `SLOTS`.
        fine: the fine-grained spans of each piece, as `FINE`.
        starts: the begins of some fine-grained spans, Int64.
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

    def narrowed(self) -> "Traced":
        """Return the records with fewer bytes for calls and tasks, because tens of millions of them are in memory."""
        return replace(self, calls=narrowed(self.calls, *NARROW), ran=narrowed(self.ran, *NARROW))

    @classmethod
    def joined(cls, parts: Sequence["Traced"]) -> "Traced":
        """Return the records of all parts, one after the other. Without any part, the tables are empty."""
        return cls(
            _joined([part.calls for part in parts], _NO_CALLS),
            _joined([part.ran for part in parts], _NO_TASKS),
            _joined([part.others for part in parts], _NO_CAUSED),
        )


def _joined(parts: list[pl.DataFrame], none: pl.DataFrame) -> pl.DataFrame:
    return pl.concat(parts, how="vertical_relaxed") if parts else none


def narrowed(rows: pl.DataFrame, *names: str) -> pl.DataFrame:
    """Return rows with some columns in the smallest unsigned type that holds their values.

    Args:
        rows: the rows.
        names: the columns, of unsigned types; `rows` may lack some of them.
    """
    columns = [rows[name] for name in names if name in rows.columns]
    return rows.with_columns(column.cast(_smallest(column)) for column in columns)


def _smallest(column: pl.Series) -> pl.DataType:
    largest = int(column.max() or 0)  # type: ignore[arg-type] # numbers alone
    bits = next(bits for bits in _UNSIGNED if largest < 2**bits)
    return _UNSIGNED[bits]


def decoded(spans: pl.DataFrame, wanted: Wanted) -> pl.DataFrame:
    """Return the spans in slots as `DECODED`.

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
    """Return the row of `Recording.names` for each string id, as the column `name`.

    Args:
        ids: the string ids, UInt32.
        names: id of a string -> row of `Recording.names`.
        lost: the row for ids without a string.
    """
    known = ids.to_frame("id").select(pl.when(pl.col("id") < len(names)).then("id")).to_series()
    return names.gather(known).fill_null(lost).rename("name")


def within(slots: pl.DataFrame, between: tuple[int, int]) -> pl.DataFrame:
    """Return the slots whose events begin in an interval.

    Args:
        slots: rows of `SLOTS`.
        between: the begin and the end of the interval, RAW; 0 for no bound.
    """
    begins = pl.col("start_ns") >= between[0]
    return slots.filter(begins & (pl.col("start_ns") < between[1]) if between[1] else begins)
