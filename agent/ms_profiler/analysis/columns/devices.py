"""Decode the records of a device from the files of a recording, with Polars alone.

A record has a DEVICE slot. If it belongs to a device, a DEVICE_PLACE slot follows. A slot has 32 bytes.
"""

from collections.abc import Sequence
from typing import Final

import polars as pl

from ms_profiler.analysis.columns.slots import CALLS, CAUSED, RAN, SLOTS, TASKS, Traced, Wanted, names_of
from ms_profiler.store.device_format import Device
from ms_profiler.store.format import Kind

_HALF: Final = 2**32


def traced(pieces: Sequence[pl.DataFrame], wanted: Wanted) -> Traced:
    """Return the device records in some pieces of a store.

    Args:
        pieces: tables of `SLOTS`; no record is split between two pieces.
        wanted: the names and the clock of the run. Its selection of spans is ignored.
    """
    rows = pl.concat([_records(pl.DataFrame(schema=SLOTS)), *map(_records, pieces)])
    known = rows.with_columns(
        names_of(rows["name"], wanted.names, wanted.lost),
        names_of(rows["detail"], wanted.names, wanted.lost).alias("detail"),
        wanted.clock.epoch(rows["start_ns"]),
        wanted.clock.epoch(rows["end_ns"]),
    )
    called = pl.col("type") == int(Device.API)
    ran = pl.col("type").is_in([int(task) for task in TASKS])
    return Traced(
        known.filter(called).select(CALLS.names()),
        known.filter(ran).select(RAN.names()),
        known.filter(~called, ~ran).select(CAUSED.names()),
    )


def _records(slots: pl.DataFrame) -> pl.DataFrame:
    """Return the device records in slots, as `CAUSED`. In a record without a DEVICE_PLACE slot, its fields are 0."""
    following = slots.select(pl.col(SLOTS.names()).shift(-1).name.prefix("next_"))
    both = pl.concat([slots, following], how="horizontal").filter(pl.col("kind") == Kind.DEVICE)
    placed = (pl.col("next_kind") == Kind.DEVICE_PLACE).fill_null(False)

    def low(word: str) -> pl.Expr:
        return (pl.col(word).reinterpret(signed=False) % _HALF).cast(pl.UInt32)

    def high(word: str) -> pl.Expr:
        return (pl.col(word).reinterpret(signed=False) // _HALF).cast(pl.UInt32)

    def where(value: pl.Expr) -> pl.Expr:
        return pl.when(placed).then(value).otherwise(0)

    return both.select(
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
        pl.col("flags").alias("source"),
    ).cast(CAUSED)
