"""Divide exchanges with other ranks into their parts: copies, reductions, notifications, waits.

The formulas are those of CANN's open analysis of HCCL (its parsers of communication and of the communication matrix).
They were checked against files of torch_npu on NPUs.

An exchange runs on several parallel planes. The times of an exchange are those of one plane; its bytes are those of all
planes. A copy over RDMA consists of several tasks, and the records do not show where the copy begins and ends. So
exchanges with copies over RDMA are left out.
"""

from typing import Final

import polars as pl

#: link of a copy that does not leave the chip
LOCAL: Final = "LOCAL"
#: kinds of tasks that move data
_CARRIERS: Final = ("Memcpy", "Reduce_Inline")
_WAIT: Final = "Notify_Wait"
_RDMA: Final = "RDMA"
_BY_CHIP: Final = "SDMA"
#: a packet with more megabytes than this is large
LARGE_MB: Final = 32
#: columns that identify an exchange
KEY: Final = ["group", "exchange_ns"]
_LENGTH: Final = (pl.col("end_ns") - pl.col("start_ns")).alias("length_ns")


def known(transfers: pl.DataFrame) -> pl.DataFrame:
    """Return the parts of all exchanges without RDMA. The `link` of parts that do not leave the chip is LOCAL.

    Args:
        transfers: table of transfers, with the columns of `tables.TRANSFERS`.
    """
    remote = transfers.filter(pl.col("transport") == _RDMA).select(KEY).unique()
    inside = (pl.col("link") == "ON_CHIP") | pl.col("target").is_null() | (pl.col("target") == pl.col("source"))
    # HCCS_SW is a wider bus of the same kind as HCCS
    link = pl.when(inside).then(pl.lit(LOCAL)).otherwise(pl.col("link").replace("HCCS_SW", "HCCS"))
    carries = pl.col("kind").is_in(_CARRIERS) & (pl.col("transport") == _BY_CHIP)
    return (
        transfers.join(remote, on=KEY, how="anti", maintain_order="left")
        .with_columns(link.alias("link"), carries.alias("carries"), _LENGTH)
        .sort(*KEY, "plane", "start_ns", maintain_order=True)
    )


def times(parts: pl.DataFrame) -> pl.DataFrame:
    """Return the times of each exchange, in nanoseconds.

    Only the main plane counts. If an exchange has several planes, plane 1 is the main plane, because the copies of
    plane 0 stay on the chip.

    - transit: total duration of the copies to other ranks.
    - wait: total duration of the waits.
    - synchronization: total duration of the waits before the first copy to another rank.

    Args:
        parts: the parts of the exchanges, from `known`.

    Returns:
        `group`, `exchange_ns`, `transit_ns`, `wait_ns`, `synchronization_ns`.
    """
    single = pl.col("plane").n_unique().over(KEY) == 1
    main = parts.filter(single | (pl.col("plane") == 1))
    transit = pl.col("carries") & (pl.col("link") != LOCAL)
    waits = pl.col("kind") == _WAIT
    early = transit.cast(pl.UInt32).cum_sum().over(KEY) == 0
    length = pl.col("length_ns")
    return (
        main.with_columns(transit.alias("transit"), early.alias("early"))
        .group_by(KEY, maintain_order=True)
        .agg(
            length.filter(pl.col("transit")).sum().alias("transit_ns"),
            length.filter(waits).sum().alias("wait_ns"),
            length.filter(waits & pl.col("early")).sum().alias("synchronization_ns"),
        )
    )


def packets(parts: pl.DataFrame) -> pl.DataFrame:
    """Return one row per exchange, link and size: `group`, `exchange_ns`, `link`, `bytes`, `count`, `length_ns`.

    Args:
        parts: the parts of the exchanges, from `known`; parts that stay on the chip are left out.
    """
    moved = parts.filter("carries", pl.col("link") != LOCAL)
    return moved.group_by(*KEY, "link", "bytes", maintain_order=True).agg(
        pl.len().alias("count"), pl.col("length_ns").sum()
    )


def links(parts: pl.DataFrame) -> pl.DataFrame:
    """Return the bytes that each exchange moved from one rank to another.

    Args:
        parts: the parts of the exchanges, from `known`. A part without a target has its source as the target.

    Returns:
        `group`, `exchange_ns`, `source`, `target`, `link`, `bytes`, `length_ns`.
    """
    target = pl.coalesce("target", "source")
    return (
        parts.filter("carries", pl.col("source").is_not_null())
        .group_by(*KEY, "source", target.alias("target"), maintain_order=True)
        .agg(pl.col("link").last(), pl.col("bytes").sum(), pl.col("length_ns").sum())
    )
