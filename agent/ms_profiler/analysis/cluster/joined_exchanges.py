"""Match the exchanges of several ranks: exchange n of an operation in a group is the same exchange on all ranks.

Messages are matched separately for each tag and group: the n-th message that rank a sends to rank b is the n-th message
that b receives from a. If the other rank of messages is unknown, they are matched only if all groups have at most two
ranks.

If all ranks made the same number of exchanges, n counts from the begin of the recording. If the numbers differ, n
counts within the step. No rank leaves a joint exchange before the last rank has come. So if joint exchanges certainly
do not overlap in time, they are not matched.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from ms_profiler.analysis.cluster import clock_offsets, exchanged
from ms_profiler.analysis.cluster.clock_offsets import Offset
from ms_profiler.analysis.cluster.rank_account import RankAccount

#: columns of the matched exchanges that `perfetto_trace.write_rank` needs; `place` is the index of the rank in the list
JOINED: Final = pl.Schema(
    {
        "place": pl.Int64,
        "name": pl.String,
        "group": pl.String,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "bytes": pl.Int64,
        "step": pl.Int64,
        "number": pl.Int64,
        "flow": pl.Int64,
        "last": pl.Boolean,
    }
)
#: the ids of timeline flows between ranks are larger than this number; the ids of flows within a rank are smaller
FIRST: Final = 2**62
#: timeline lane of exchanges whose ranks are unknown
UNKNOWN: Final = "unknown"
#: timeline lane of exchanges in which all ranks take part
ALL: Final = "all"
#: the two operations of a message: one rank sends, the other receives
_SENDS: Final = ("send", "isend")
_RECEIVES: Final = ("receive", "recv", "irecv")
#: operations in which only some ranks of the group take part
_SOME: Final = (*_SENDS, *_RECEIVES, "batchsendreceive", "sendrecv")
#: prefix of the names of calls that wait for an exchange; the exchange itself was queued by an earlier call
_WAIT: Final = "wait"
_WITHIN: Final = ["place", "among", "kind"]


def join(accounts: Sequence[RankAccount], clocks: Mapping[int, Offset]) -> pl.DataFrame:
    """Return the matched exchanges of several ranks, with the columns of `JOINED`.

    Args:
        accounts: the figures (accounts) of the ranks, with their exchanges.
        clocks: index of an account in `accounts` -> the clock offset of its rank.
    """
    tables = [_named(place, known) for place, known in enumerate(accounts)]
    ahead = {place: clock.offset_ns for place, clock in clocks.items()}
    slack = {place: clock.uncertainty_ns or 0 for place, clock in clocks.items()}
    table = pl.concat(tables).with_columns(
        number=pl.int_range(pl.len()).over(_WITHIN),
        within=pl.int_range(pl.len()).over([*_WITHIN, "step"]),
        ahead=pl.col("place").replace_strict(ahead, return_dtype=pl.Int64),
        slack=pl.col("place").replace_strict(slack, return_dtype=pl.Int64),
    )
    alike = _alike(table, [])
    by_step = _alike(table, ["step"])
    key = (
        pl.when(alike)
        .then(pl.format("{}|{}|{}", "among", "kind", "number"))
        .when(by_step & pl.col("step").is_not_null())
        .then(pl.format("{}|{}|{}.{}", "among", "kind", "step", "within"))
    )
    table = table.with_columns(key=pl.when(pl.col("among").is_not_null(), pl.col("kind").is_not_null()).then(key))
    ready, left = pl.col("start_ns") - pl.col("ahead"), pl.col("end_ns") - pl.col("ahead")
    together = (ready - pl.col("slack")).max() <= (left + pl.col("slack")).min()
    joint = pl.col("operation").is_in(clock_offsets.JOINT)
    met = pl.col("key").is_not_null() & (pl.len().over("key") > 1) & (together.over("key") | ~joint)
    table = table.with_columns(key=pl.when(met).then("key"))
    return table.select(
        "place",
        pl.col("operation").alias("name"),
        "group",
        "start_ns",
        "end_ns",
        pl.when(pl.col("bytes") > 0).then("bytes").alias("bytes"),
        "step",
        "number",
        pl.when(pl.col("key").is_not_null()).then(pl.col("key").rank("dense").cast(pl.Int64) + FIRST).alias("flow"),
        (ready == ready.max().over("key")).alias("last"),
    ).cast(JOINED)


def _named(place: int, known: RankAccount) -> pl.DataFrame:
    """Return the exchanges of a rank. `among` names the ranks that take part; it is null if they are unknown."""
    members = {name: ",".join(map(str, sorted(ranks))) for name, ranks in known.groups.items()}
    everyone = all(len(ranks) == known.world_size for ranks in known.groups.values())
    blank = pl.col("group") == ""
    # if all groups contain all ranks of the job, an exchange without a known group is also among all ranks
    among = pl.when(blank).then(pl.lit(ALL if everyone else None)).otherwise(pl.col("group").replace(members))
    return known.exchanges.cast(exchanged.EXCHANGES).select(
        pl.lit(place, pl.Int64).alias("place"),
        "operation",
        _kind(known).alias("kind"),
        pl.when(blank).then(pl.lit(ALL if everyone else UNKNOWN)).otherwise("group").alias("group"),
        pl.format("{} {}", pl.lit(known.role), among).alias("among"),
        "bytes",
        "start_ns",
        "end_ns",
        "step",
    )


def _kind(known: RankAccount) -> pl.Expr:
    """Return a key for each exchange of a rank that is the same on all ranks; null if it cannot be matched."""
    operation, own = pl.col("operation"), pl.lit(known.rank, pl.Int64)
    sends, receives = operation.is_in(_SENDS), operation.is_in(_RECEIVES)
    told = pl.col("peer").is_not_null()
    some = operation.is_in(_SOME) | operation.str.starts_with(_WAIT)
    unknown = pl.when(sends | receives).then(pl.lit("message")).when(~operation.str.starts_with(_WAIT)).then(operation)
    return (
        pl.when(sends & told)
        .then(pl.format("message {} {} {}", own, "peer", pl.col("tag").fill_null(0)))
        .when(receives & told)
        .then(pl.format("message {} {} {}", "peer", own, pl.col("tag").fill_null(0)))
        .when(pl.lit(_pairs(known)))
        .then(unknown)
        .when(~some)
        .then(operation)
    )


def _pairs(known: RankAccount) -> bool:
    """Return whether all groups have at most two ranks, so that a message has only one possible receiver."""
    return bool(known.groups) and all(len(ranks) <= 2 for ranks in known.groups.values())


def _alike(table: pl.DataFrame, further: list[str]) -> pl.Expr:
    """Return, for each exchange, whether all its ranks made the same number of exchanges of this kind.

    Args:
        table: the exchanges of all ranks.
        further: further columns that exchanges of one kind share, besides `among` and `kind`.
    """
    counts = pl.len().over([*_WITHIN, *further])
    kind = ["among", "kind", *further]
    return (counts.min().over(kind) == counts.max().over(kind)) & (pl.col("place").n_unique().over(kind) > 1)
