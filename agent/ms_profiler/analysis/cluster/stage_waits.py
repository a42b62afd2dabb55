"""Compute the time in which a rank only waits in messages to and from other ranks, and its bubbles in a pipeline.

In a bubble, the rank sends, receives or awaits a message of the pipeline's group, and does nothing else: it neither
computes nor takes part in another exchange. GPipe (https://arxiv.org/abs/1811.06965, section 2.3) and Megatron-LM
(https://arxiv.org/abs/2104.04473, section 2.2) call all idle time in a pipeline a bubble. Here a bubble is only the
time in messages, their transfer included. For results of Ascend's tools, the bubble is the column `Bubble` (the sum of
the receives), but at most `Communication(Not Overlapped)`.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

import polars as pl

from ms_profiler.analysis.cluster import exchanged
from ms_profiler.analysis.metrics import intervals

if TYPE_CHECKING:
    from ms_profiler.analysis.metrics.measures import Measures

#: operations of messages from one rank to another, and waits for queued messages. NCCL has one kernel for all of them,
#: so the name of its kernel does not tell the operation
_MESSAGES: Final = ("send", "receive", "batchsendreceive", "sendrecv", "wait for send", "wait for receive")
#: whether an exchange is a message
MESSAGE: Final = pl.col("operation").is_in(_MESSAGES)
_LENGTH: Final = pl.col("end_ns") - pl.col("start_ns")


def by_step(measures: "Measures", exchanges: pl.DataFrame, pipelines: Collection[str]) -> pl.DataFrame:
    """Return `step` and `bubble_ns` of a rank; empty if it sent no message within a pipeline.

    A bubble is the time in which the rank only waits for its neighbours. Without a device, only messages of PyTorch
    count, because only their calls last as long as the message.

    Args:
        measures: the measures of the rank's run.
        exchanges: the exchanges of the rank, with the columns of `exchanged.EXCHANGES`.
        pipelines: the names of the groups that are pipelines.
    """
    messages = pl.col("group").is_in(list(pipelines)) & MESSAGE
    computing = measures.stream.states.filter("computing")
    found = exchanges.filter(messages & _timed(measures))
    return bubbles(found, exchanges.filter(~messages), computing, measures.steps.table)


def in_messages(measures: "Measures", exchanges: pl.DataFrame) -> pl.DataFrame:
    """Return `step` and `messages_ns`: the time in which a rank only waits in messages; empty if it is unknown.

    The shortest message of each operation, group and size tells how long the transfer takes. It does not count as a
    wait. So if all messages wait, the time is too short.

    Args:
        measures: the measures of the rank's run.
        exchanges: the exchanges of the rank, with the columns of `exchanged.EXCHANGES`.
    """
    messages = exchanges.filter(MESSAGE & _timed(measures))
    if messages.is_empty():
        return pl.DataFrame(schema={"step": pl.Int64, "messages_ns": pl.Int64})
    transfer = _LENGTH.min().over("operation", "group", "bytes")
    computing = measures.stream.states.filter("computing")
    waits = _alone(messages.with_columns(pl.col("start_ns") + transfer), exchanges.filter(~MESSAGE), computing)
    table = measures.steps.table
    return _sums(waits.with_columns(exchanged.steps(waits["start_ns"], table)), table, "messages_ns")


def _timed(measures: "Measures") -> bool:
    """Return whether the times of messages are known: without a device, only PyTorch's calls last that long."""
    return measures.recording.device is not None or measures.recording.info.framework.get("name") == "torch"


def bubbles(messages: pl.DataFrame, others: pl.DataFrame, computing: pl.DataFrame, table: pl.DataFrame) -> pl.DataFrame:
    """Return the bubble of each recorded step, as `step` and `bubble_ns`; empty without messages.

    Args:
        messages: the times of messages and of waits for messages.
        others: the other exchanges.
        computing: the intervals in which the rank computed.
        table: the steps: `number`, `start_ns`, `end_ns`, `recorded`, without overlap, sorted by start.
    """
    if messages.is_empty():
        return pl.DataFrame(schema={"step": pl.Int64, "bubble_ns": pl.Int64})
    waits, known = _alone(messages, others, computing), table.filter("recorded")
    line = intervals.timeline({"wait": waits, "step": known}).filter(pl.col("wait") > 0, pl.col("step") > 0)
    place = intervals.locate(line["start_ns"], known)
    return _sums(line.with_columns(step=known["number"].gather(place).cast(pl.Int64)), known, "bubble_ns")


def _alone(messages: pl.DataFrame, *others: pl.DataFrame) -> pl.DataFrame:
    """Return the intervals in which messages run, and nothing of the other intervals."""
    busy = pl.concat([each.select(intervals.BOUNDS) for each in others])
    return intervals.subtract(intervals.union(messages), intervals.union(busy))


def _sums(waits: pl.DataFrame, steps: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return `step`, the number of each step, and the sum of its waits in a column `name`, ns."""
    sums = waits.group_by("step").agg(_LENGTH.sum().cast(pl.Int64).alias(name))
    numbers = steps.select(pl.col("number").cast(pl.Int64).alias("step"))
    return numbers.join(sums, on="step", how="left", maintain_order="left").with_columns(pl.col(name).fill_null(0))
