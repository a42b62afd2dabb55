"""Find the all-to-all exchanges that carry tokens to the experts of a layer and back, for `expert_load`."""

from collections.abc import Collection
from typing import Final

import polars as pl

#: one row for each all-to-all exchange of a group whose ranks share experts
SENT: Final = pl.Schema(
    {
        "group": pl.String,
        "step": pl.Int64,
        "place": pl.Int64,  # index among the exchanges of the group in the step, from 0
        "bytes": pl.Int64,
        "before_ns": pl.Int64,  # time from the end of the previous exchange in the step; null for the first exchange
        "took_ns": pl.Int64,
    }
)
_WITHIN: Final = ["group", "step"]


def sent(exchanges: pl.DataFrame, sharing: Collection[str]) -> pl.DataFrame:
    """Return the exchanges of a rank that may carry tokens to experts and back, with the columns of `SENT`.

    Args:
        exchanges: all exchanges of the rank, with the columns of `exchanged.EXCHANGES`.
        sharing: the names of the groups whose ranks share experts.
    """
    mine = pl.col("group").is_in(list(sharing))
    own = exchanges.filter(pl.col("operation") == "alltoall", mine).drop_nulls("step")
    return (
        own.sort("start_ns")
        .with_columns(
            place=pl.int_range(pl.len()).over(_WITHIN),
            before_ns=pl.col("start_ns") - pl.col("end_ns").shift(1).over(_WITHIN),
            took_ns=pl.col("end_ns") - pl.col("start_ns"),
        )
        .select(SENT.names())
        .cast(SENT)
    )
