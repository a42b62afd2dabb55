"""When a thread was off its processor, by what the recorder was told now and then, see `tables.LOOKS`."""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals

#: stretches between two looks: `off_ns` of them the thread was off its processor, `queued_ns` of these it waited for
#: one; null where the system did not tell
CELLS: Final = pl.Schema({"start_ns": pl.Int64, "end_ns": pl.Int64, "off_ns": pl.Int64, "queued_ns": pl.Int64})


def cells(looks: pl.DataFrame, process: int, thread: int) -> pl.DataFrame:
    """Return the stretches of time between what is known of a thread, apart from each other and by time, of `CELLS`.

    Between two looks the thread was off its processor for off = time - processor time. The second look followed a gap
    in which the thread recorded nothing: what was off lies there, as far as there is room, and before it otherwise.
    The time that a thread waited for a processor is told for several looks at once, and shared out by what was off.

    Args:
        looks: `tables.LOOKS`.
        process: pid.
        thread: its number.
    """
    own = looks.filter(pl.col("process") == process, pl.col("thread") == thread).sort("time_ns")
    since, time = pl.col("since_ns"), pl.col("time_ns")
    off = (time - since) - (pl.col("ran_ns") - pl.col("ran_before_ns"))
    told = pl.col("waited_ns").is_not_null()
    known = (
        own.with_columns(since_ns=time.shift(1), ran_before_ns=pl.col("ran_ns").shift(1))
        .drop_nulls("since_ns")
        .filter(time > since)
        .with_columns(off_ns=off.clip(0, time - since), gap_ns=pl.col("before_ns").clip(since, time))
        .with_columns(asked=told.cast(pl.Int64).cum_sum() - told.cast(pl.Int64))
        .with_columns(
            waited_ns=pl.col("waited_ns").max().over("asked"), off_together=pl.col("off_ns").sum().over("asked")
        )
    )
    tells = bool(known["waited_ns"].is_not_null().any())
    ratio = (pl.col("waited_ns").fill_null(0) / pl.col("off_together").clip(lower_bound=1)).clip(0.0, 1.0)
    quiet = pl.min_horizontal("off_ns", time - pl.col("gap_ns"))
    parts = [
        known.select(
            since.alias("start_ns"), pl.col("gap_ns").alias("end_ns"), off_ns=pl.col("off_ns") - quiet, r=ratio
        ),
        known.select(pl.col("gap_ns").alias("start_ns"), time.alias("end_ns"), off_ns=quiet, r=ratio),
    ]
    queued = (pl.col("off_ns") * pl.col("r")).cast(pl.Int64) if tells else pl.lit(None, pl.Int64)
    return (
        pl.concat(parts)
        .filter(pl.col("end_ns") > pl.col("start_ns"))
        .sort("start_ns")
        .select("start_ns", "end_ns", "off_ns", queued.alias("queued_ns"))
        .cast(pl.Int64)
    )


def queued(known: pl.DataFrame, during: pl.DataFrame) -> float:
    """Return in what part of some steps the thread waited for a processor, whatever it was at; 0 where nothing tells.

    Args:
        known: of `cells`.
        during: the steps, `start_ns` and `end_ns`.
    """
    rate = pl.col("queued_ns").fill_null(0) / (pl.col("end_ns") - pl.col("start_ns"))
    rows = known.with_row_index("cell", 1).with_columns(rate.alias("rate"))
    line = intervals.timeline({"in": during, "cell": rows}, {"cell": "cell"}).filter(pl.col("in") > 0)
    inside = line.join(rows.select(pl.col("cell").cast(pl.Int64), "rate"), on="cell")
    waited = float(inside.select(((pl.col("end_ns") - pl.col("start_ns")) * pl.col("rate")).sum()).item())
    return min(waited / max(intervals.total_ns(during), 1), 1.0)
