"""Share the kernels of steps that were not sampled among modules.

A device's kernels are recorded in all steps. The operators and modules that launched them are recorded only in sampled
steps. So each kernel's time in the other steps is shared among modules as in the sampled steps:

    time of a module in other steps = sum over kernels of (time in other steps
                                      * time of the kernel in the module in sampled steps / its time in sampled steps)

This is a ratio estimate (Cochran, Sampling Techniques, 6.1). Kernels of different parts of a step (forward, backward)
count as different kernels, unless the part is unknown, too: while hooks rest (`job.rest`), steps have no parts. The
sum over all modules stays the exact time of all kernels.

Kernels launched outside of all steps, for example by an evaluation, are neither: what launched them is often not
recorded. They keep their times, and do not count for the shares.
"""

from typing import Final

import polars as pl

from ms_profiler.analysis.metrics.binding import Bound
from ms_profiler.analysis.metrics.scopes import Part

#: Kernels launched in steps that were not sampled, with unknown modules. `in_step`: whether they belong to a selected
#: step. `part` is null where parts were not recorded either.
UNSEEN: Final = pl.Schema(
    {"in_step": pl.Boolean, "kernel": pl.UInt32, "part": pl.UInt8, "count": pl.UInt64, "total_ns": pl.Int64}
)
_KEYS: Final = ["kernel", "module", "bound", "part", "in_step"]
_OF_UNSEEN: Final = ["in_step", "kernel", "part"]
_SUMS: Final = ["count", "total_ns"]


def sum_up(kernels: pl.DataFrame) -> pl.DataFrame:
    """Add up the kernels of steps that were not sampled: the columns of `UNSEEN`.

    Args:
        kernels: `in_step`, `kernel`, `part` and `duration_ns` of these kernels.
    """
    sums = kernels.group_by(_OF_UNSEEN).agg(pl.len().alias("count"), pl.col("duration_ns").sum().alias("total_ns"))
    return sums.select(UNSEEN.names()).cast(UNSEEN)


def add_up(sums: list[pl.DataFrame]) -> pl.DataFrame:
    """Add up the sums of several parts of a run, from `sum_up`."""
    return pl.concat(sums).group_by(_OF_UNSEEN).agg(pl.col(_SUMS).sum()).select(UNSEEN.names())


def shared(sums: pl.DataFrame, unseen: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Return the times of kernels by module, and how much of the steps' kernels is estimated, in ns.

    Args:
        sums: `kernel`, `module`, `bound`, `part`, `in_step`, `count` and `total_ns` of all kernels.
        unseen: those of `sums` whose module was not recorded, with the columns of `UNSEEN`.

    Returns:
        The same columns as `sums`, with `count` as Float64, because it is estimated, too.
    """
    known = sums.select(*_KEYS, pl.col("count").cast(pl.Float64), "total_ns")
    if unseen.is_empty():
        return known, 0
    without = unseen.with_columns(
        pl.lit(None, known.schema["module"]).alias("module"),
        pl.lit(int(Bound.NOTHING)).alias("bound"),
        pl.col("part").fill_null(int(Part.UNKNOWN)),
        -pl.col("count").cast(pl.Float64),
        -pl.col("total_ns"),
    )
    seen = pl.concat([known, without.select(known.columns).cast(known.schema)]).group_by(_KEYS).agg(pl.col(_SUMS).sum())
    seen = seen.filter(pl.col("total_ns") > 0)
    sampled = seen.filter("in_step").drop("in_step")
    placed = [
        _among(unseen.drop_nulls("part"), sampled, ["kernel", "part"]),
        _among(unseen.filter(pl.col("part").is_null()).drop("part"), sampled, ["kernel"]),
    ]
    among = pl.concat([table.select(known.columns).cast(known.schema) for table in placed])
    estimated = int(among.filter("in_step", pl.col("module").is_not_null())["total_ns"].sum())
    return pl.concat([seen.select(known.columns), among]).group_by(_KEYS).agg(pl.col(_SUMS).sum()), estimated


def _among(unseen: pl.DataFrame, seen: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Share times among the rows of `seen` with the same keys, in proportion; times without such a row stay unbound."""
    whole = unseen.rename({name: f"other_{name}" for name in _SUMS}).with_row_index("row")
    pairs = whole.join(seen, on=keys, how="left", maintain_order="left_right")
    share = (pl.col("total_ns") / pl.col("total_ns").sum().over("row")).fill_null(1.0)
    # the parts are differences of rounded running sums, so that they add up exactly
    until = (pl.col("other_total_ns") * share.cum_sum().over("row")).round()
    own = until - until.shift(1).over("row").fill_null(0)
    return pairs.with_columns(
        own.cast(pl.Int64).alias("total_ns"),
        (pl.col("other_count") * share).alias("count"),
        pl.col("bound").fill_null(int(Bound.NOTHING)),
        pl.col("part").fill_null(int(Part.UNKNOWN)),
    )


def by_part(shared: pl.DataFrame) -> pl.DataFrame:
    """Return `name` (a number of `scopes.Part`), `count` and `total_ns` of the kernels of each part of a step."""
    return shared.group_by(name="part").agg(pl.col(_SUMS).cast(pl.Float64).sum())


def by_module(shared: pl.DataFrame, texts: pl.Series) -> pl.DataFrame:
    """Return `name`, `count` and `total_ns` of the kernels of each known module.

    Args:
        shared: the kernels by module, from the function `shared`.
        texts: the texts to which `module` refers by row.
    """
    named = shared.with_columns(texts.gather(shared["module"]).alias("name")).drop_nulls("name")
    return named.group_by("name").agg(pl.col(_SUMS).cast(pl.Float64).sum())
