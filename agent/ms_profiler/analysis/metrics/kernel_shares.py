"""Share the kernels of steps that were not sampled among modules.

A device's kernels are recorded in all steps. The operators and modules that launched them are recorded only in sampled
steps. So each kernel's time in the other steps is shared among modules as in the sampled steps:

    time of a module in other steps = sum over kernels of (time in other steps
                                      * time of the kernel in the module in sampled steps / its time in sampled steps)

This is a ratio estimate (Cochran, Sampling Techniques, 6.1). Kernels of different parts of a step (forward, backward)
count as different kernels. The sum over all modules stays the exact time of all kernels.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics.binding import Bound

#: kernels of steps that were not sampled, with unknown modules
UNSEEN: Final = pl.Schema({"kernel": pl.UInt32, "part": pl.UInt8, "total_ns": pl.Int64})
_KEYS: Final = ["kernel", "part"]


def sum_up(kernels: pl.DataFrame) -> pl.DataFrame:
    """Add up the kernels of steps that were not sampled: the columns of `UNSEEN`.

    Args:
        kernels: kernels, with the columns of `tables.KERNELS`, or sums with `total_ns` in place of `duration_ns`.
    """
    length = "total_ns" if "total_ns" in kernels.columns else "duration_ns"
    return kernels.group_by(_KEYS).agg(pl.col(length).sum().alias("total_ns")).cast(UNSEEN)


def shared(sums: pl.DataFrame, unseen: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Return the times of kernels by module, and how much of them is estimated, in ns.

    Args:
        sums: `kernel`, `module`, `bound`, `part` and `total_ns` of all kernels.
        unseen: those of `sums` whose module was not recorded, with the columns of `UNSEEN`.
    """
    keys = ["kernel", "module", "bound", "part"]
    if unseen.is_empty():
        return sums.select(*keys, "total_ns"), 0
    known = sums.select(*keys, "total_ns")
    nothing = {"module": pl.lit(None, sums.schema["module"]), "bound": pl.lit(int(Bound.NOTHING), sums.schema["bound"])}
    without = unseen.with_columns(**nothing, total_ns=-pl.col("total_ns")).select(known.columns).cast(known.schema)
    seen = pl.concat([known, without]).group_by(keys).agg(pl.col("total_ns").sum()).filter(pl.col("total_ns") > 0)
    share = (pl.col("total_ns") / pl.col("total_ns").sum().over(_KEYS)).alias("share")
    among = unseen.rename({"total_ns": "other_ns"}).join(seen.with_columns(share), on=_KEYS, how="left")
    among = among.with_columns(
        total_ns=(pl.col("other_ns") * pl.col("share").fill_null(1.0)).round().cast(pl.Int64),
        bound=pl.col("bound").fill_null(int(Bound.NOTHING)),
    ).select(known.columns)
    estimated = int(among.filter(pl.col("module").is_not_null())["total_ns"].sum())
    return pl.concat([seen.select(known.columns), among]).group_by(keys).agg(pl.col("total_ns").sum()), estimated
