"""Take single interruptions out of the times of sampled steps.

Of 20,000 steps of 0.3 ms, 64 were recorded. In one of them, another program ran for 0.04 ms, while an operator of
0.001 ms ran. The step was 10 % longer, which is nothing special. But it stood for 2,000 steps, so that the operator
seemed to take 2.7 times its time in the whole run.

So a time is replaced by the usual time of the same name in its burst if it is far above it, and if at most two other
recorded steps of the run have at least half of this excess. What is taken away is a part of the standard error, because
a job may do more work in one of 100 steps. Long steps keep their times. In the first step of a burst, whose caches are
cold, the usual time replaces all times (`length_ratios`). Where most neighbouring steps differ, all times are kept.
"""

from typing import Final

import polars as pl

#: a time is far above the usual one if it is more than this multiple of it
FAR: Final = 1.2
#: largest number of recorded steps with such an excess, or half of it; if there are more, the job itself needs the time
FEW: Final = 3
#: in a step with cold caches, a time of up to this multiple of the usual one is replaced, too
COLDEST: Final = 3.0
#: smallest number of recorded steps of a burst whose median time is the usual one
LEAST: Final = 3


def without(values: pl.DataFrame, keys: list[str], times: list[str]) -> pl.DataFrame:
    """Return sums of recorded steps without single interruptions, and `<column>_removed` for each column of times.

    Args:
        values: the sums of recorded steps by `keys`, with `run` (number of the burst), `long`, `cold`, `warm` and
            `regular`, as `length_ratios.weighted` says. If there is a column `count`, times per call are compared.
        keys: the columns that tell what the times belong to.
        times: the columns of times.
    """
    calls = pl.col("count").clip(lower_bound=1).cast(pl.Float64) if "count" in values.columns else pl.lit(1.0)
    found = values
    for column in times:
        each = pl.col(column) / calls * pl.col("warm")
        others = each.filter(~pl.col("cold"))
        usual = pl.when("regular", others.count().over(*keys, "run") >= LEAST).then(others.median().over(*keys, "run"))
        far = (~pl.col("long") & (each > FAR * usual)).fill_null(False)
        excess = pl.when(far).then(pl.col(column) - usual * calls / pl.col("warm")).otherwise(0.0)
        common = excess.top_k(FEW + 1).min().over(keys)  # 0 if there are fewer
        single = far & (2 * common < excess)
        slow = pl.col("cold") & (pl.col(column) / calls <= COLDEST * usual)
        kept = pl.when(single | slow).then(usual * calls / pl.col("warm")).otherwise(pl.col(column).cast(pl.Float64))
        removed = pl.when(single).then(pl.col(column) - kept).otherwise(0.0)
        found = found.with_columns(kept.alias(f"{column}_kept"), removed.alias(f"{column}_removed"))
    return found.with_columns(pl.col(f"{column}_kept").alias(column) for column in times)
