"""Turn records of calls of a device's driver, and of other work of the driver on the host, into tables and sums."""

import re
from typing import Final

import polars as pl

from ms_profiler.analysis.columns import CHUNK
from ms_profiler.analysis.metrics import operators

#: suffixes that variants of a call add to its name, for example `_ptsz_v7000`
_VERSION: Final = re.compile(r"(_ptsz|_ptds)?(_v\d+)?$")
#: calls that launch one kernel each; a launch of a graph runs any number of kernels
LAUNCHES: Final = r"^(?:cuda|cu|hip)(?:Ext)?(?:Module)?Launch(?:Cooperative)?Kernel"
#: part of the names of calls that launch a graph; a launch that a graph captured has no kernel of its own
_GRAPHS: Final = "GraphLaunch"
#: The work of a device is unknown if there are at least `_LEAST` launches, and if the kernels of more than the share
#: `_LOST` of them are missing, or of all of them if the job launches graphs.
_LEAST: Final = 10
_LOST: Final = 0.8


def calls(rows: pl.DataFrame, level: str, names: pl.Series) -> pl.DataFrame:
    """Return records as `tables.DRIVER_CALLS`; the thread is 0 for records that have none.

    Args:
        rows: the records: `name` (row of `names`), `start_ns`, `end_ns` and, if known, `native_tid`.
        level: the level of all records.
        names: the names of the recording.
    """
    thread = pl.col("native_tid") if "native_tid" in rows.columns else pl.lit(0)
    return rows.select(
        pl.lit(level).alias("level"),
        _readable(names).gather(rows["name"]).alias("name"),
        "start_ns",
        "end_ns",
        thread.cast(pl.Int64).alias("thread"),
    )


def summed(rows: pl.DataFrame, level: str, names: pl.Series) -> pl.DataFrame:
    """Return the number of calls of each name, and sums over their durations, as `operators.by_level` returns them.

    Args:
        rows: the records, as for `calls`.
        level: the level of all records.
        names: the names of the recording.
    """
    numbered = rows.select(pl.lit(level).alias("level"), "name", "start_ns", "end_ns")
    # sum chunk by chunk to save memory: the squares of durations take 16 bytes each
    sums = pl.concat([operators.by_level(part) for part in (numbered.head(0), *numbered.iter_slices(CHUNK))])
    # variants of a call get the same readable name, so their sums are added
    named = sums.with_columns(_readable(names).gather(sums["name"]).alias("name"))
    return (
        named.group_by("level", "name")
        .agg(
            pl.col("count", "total_ns").sum(),
            pl.col("min_ns").min(),
            pl.col("max_ns").max(),
            pl.col("squares").sum(),
        )
        .select(sums.columns)
    )


def lost(sums: pl.DataFrame, kernels: int) -> str:
    """Return a clause that says how many kernels have no record, if these are most kernels; empty otherwise.

    If an error ends the work of an NVIDIA GPU, CUPTI returns the records of its last kernels without times: on an H100,
    10,260 of the 10,262 kernels of a job with an invalid index.

    Args:
        sums: the sums of the calls, from `summed`.
        kernels: the number of kernels that have a record.
    """
    launches = int(sums.filter(pl.col("name").str.contains(LAUNCHES))["count"].sum())
    graphs = bool(sums["name"].str.contains(_GRAPHS, literal=True).any())
    if launches < _LEAST or kernels > (0 if graphs else (1 - _LOST) * launches):
        return ""
    return f"{launches - kernels:,} of {launches:,} kernels that were launched have no times"


def _readable(names: pl.Series) -> pl.Series:
    return names.str.replace(_VERSION.pattern, "")
