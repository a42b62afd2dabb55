"""Find the copies of memory during which a device neither computes nor exchanges data."""

from dataclasses import dataclass
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import critical_path
from ms_profiler.analysis.metrics.device_waits import PAGEABLE

#: text in the names of copies to or from pinned memory (for pageable memory, the text is `device_waits.PAGEABLE`)
_PINNED: Final = "Pinned"


@dataclass(frozen=True)
class Copied:
    """Figures of the exposed copies. A copy is exposed if at some moment of the copy the device does nothing else.

    Attributes:
        per_step: average number of exposed copies per step.
        bytes: average number of bytes per step that these copies move.
        bandwidth: bytes of these copies / their duration, in bytes per second; None if the bytes are unknown.
        pageable: duration of the exposed copies to or from pageable memory / duration of all exposed copies; None if
            the names of the copies do not show the kind of memory.
        stream: the stream with the longest total duration of exposed copies.
    """

    per_step: float
    bytes: float
    bandwidth: float | None
    pageable: float | None
    stream: int


def exposed(copies: pl.DataFrame, pieces: pl.DataFrame) -> Copied | None:
    """Return figures of the exposed copies, during which a device at some moment does nothing else; None if none exist.

    Args:
        copies: table of copies, with the columns of `tables.COPIES`.
        pieces: the pieces of `device_bounds.parts`, only those of the examined steps.
    """
    alone = pieces.filter(pl.col("part") == critical_path.COPY).select("start_ns", pl.col("end_ns").alias("until_ns"))
    if alone.is_empty():
        return None
    own = (
        copies.filter(~pl.col("sets"))
        .sort("start_ns")
        .join_asof(
            alone.sort("until_ns").with_columns(alone_ns="start_ns").drop("start_ns"),
            left_on="start_ns",
            right_on="until_ns",
            strategy="forward",
            allow_exact_matches=False,
        )
        .filter(pl.col("alone_ns") < pl.col("end_ns"))
        .with_columns(length=pl.col("end_ns") - pl.col("start_ns"))
    )
    if own.is_empty():
        return None
    steps, length = pieces["step"].n_unique(), max(int(own["length"].sum()), 1)
    size, named = int(own["bytes"].sum()), pl.col("name").str.contains(f"{PAGEABLE}|{_PINNED}")
    moved = int(own.filter(pl.col("name").str.contains(PAGEABLE))["length"].sum())
    streams = own.group_by("stream").agg(pl.col("length").sum()).sort("length", "stream", descending=[True, False])
    return Copied(
        per_step=own.height / steps,
        bytes=size / steps,
        bandwidth=size / length * 1e9 if size else None,
        pageable=moved / length if own.select(named.any()).item() else None,
        stream=int(streams["stream"][0]),
    )
