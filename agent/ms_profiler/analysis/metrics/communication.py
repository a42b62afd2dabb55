"""What was exchanged with other ranks, call by call."""

import re
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.store.format import Category

#: between the operation and its group in the name of a span
_GROUP: Final = "@"
_RANKS: Final = re.compile(r"group (?P<group>.*) ranks (?P<ranks>\d+(-\d+)?(,\d+(-\d+)?)*)")
#: primitives whose kernels exchange data instead of computing: what they do
COLLECTIVES: Final = {
    "AllGather": "AllGather",
    "AllGatherV": "AllGather",
    "AllReduce": "AllReduce",
    "AlltoAll": "AllToAll",
    "AlltoAllV": "AllToAll",
    "AlltoAllVC": "AllToAll",
    "Barrier": "Barrier",
    "BatchISendIRecv": "BatchSendReceive",
    "Broadcast": "Broadcast",
    "CollectiveGather": "Gather",
    "CollectiveScatter": "Scatter",
    "NeighborExchange": "NeighborExchange",
    "NeighborExchangeV2": "NeighborExchange",
    "Receive": "Receive",
    "Reduce": "Reduce",
    "ReduceScatter": "ReduceScatter",
    "ReduceScatterV": "ReduceScatter",
    "Send": "Send",
}


def calls(spans: pl.DataFrame, names: pl.Series, steps: Steps, kernels: pl.DataFrame) -> pl.DataFrame:
    """Return the calls in the steps whose bytes are known, by start.

    The host mostly queues a call: where the kernel is known that did it, the time is that of the kernel.

    Args:
        spans: `tables.SPANS`; a call is named `OPERATION@GROUP` and carries its bytes.
        names: texts by row.
        steps: the steps in use.
        kernels: `tables.KERNELS`.

    Returns:
        `operation`, `group`, `number` (of the call among those of its group), `bytes`, `start_ns`, `end_ns`, `step`
        (row of `steps.table`).
    """
    chosen = spans.with_row_index("row").filter(
        pl.col("category") == Category.COMMUNICATION, pl.col("process") == steps.process, pl.col("arg") > 0
    )
    parts = names.gather(chosen["name"]).str.split_exact(_GROUP, 1).struct.rename_fields(["operation", "group"])
    queued = kernels.select(pl.col("launch").alias("row"), pl.col("start_ns").alias("ran_ns"), "duration_ns")
    table = (
        chosen.select("row", "start_ns", "end_ns", pl.col("arg").alias("bytes"))
        .with_columns(
            *parts.struct.unnest().get_columns(), intervals.locate(chosen["start_ns"], steps.table).alias("step")
        )
        .filter(pl.col("group").is_not_null())
        .sort("start_ns", "end_ns", "operation")
        .with_columns(pl.int_range(pl.len()).over("group").alias("number"))
        .filter(pl.col("step").is_not_null())
        .join(queued.drop_nulls("row"), on="row", how="left", maintain_order="left")
    )
    return table.select(
        "operation",
        "group",
        "number",
        "bytes",
        pl.coalesce("ran_ns", "start_ns").alias("start_ns"),
        pl.coalesce(pl.col("ran_ns") + pl.col("duration_ns"), "end_ns").alias("end_ns"),
        "step",
    )


def ranks(instants: pl.DataFrame, names: pl.Series) -> dict[str, list[int]]:
    """Return the ranks of the groups that were used, in their order.

    Args:
        instants: `tables.INSTANTS`; a group is told as `group NAME ranks 0,1,4-7`.
        names: texts by row.
    """
    found = {}
    marks = instants.filter(pl.col("category") == Category.COMMUNICATION)["name"].unique(maintain_order=True)
    for text in names.gather(marks):
        if match := _RANKS.fullmatch(text):
            found[match["group"]] = [rank for part in match["ranks"].split(",") for rank in _range(part)]
    return found


def _range(part: str) -> range:
    first, _, last = part.partition("-")
    return range(int(first), int(last or first) + 1)
