"""Find the copies of a device's memory that run while nothing else does."""

from dataclasses import dataclass
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import critical_path
from ms_profiler.analysis.metrics.device_waits import PAGEABLE

#: part of the name of a copy whose memory is not `device_waits.PAGEABLE`
_PINNED: Final = "Pinned"


@dataclass(frozen=True)
class Copied:
    """The copies that a device waits for, at least partly.

    Attributes:
        per_step: average number of copies.
        bytes: average bytes per step.
        bandwidth: bytes per second while they run; None if their bytes are unknown.
        pageable: the share of their time that copies to or from pageable memory take; None if their names do not show
            it.
        stream: the stream on which they take most time.
    """

    per_step: float
    bytes: float
    bandwidth: float | None
    pageable: float | None
    stream: int


def exposed(copies: pl.DataFrame, pieces: pl.DataFrame) -> Copied | None:
    """Return the copies with moments in which nothing is computed or exchanged; None if there are none.

    Args:
        copies: `tables.COPIES`.
        pieces: the pieces of `device_bounds.parts`, of the steps that are looked at.
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
