"""Find the other rank and the tag of each message. The job records both as an instant (event without duration)."""

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals
from ms_profiler.analysis.model import tables
from ms_profiler.store.names import PEER, PEER_IN_GROUP

#: columns about a message. `peer` is the other rank, by its number in the job. `peer` and `tag` are null if they are
#: unknown, or if the exchange is not a message
PEERS: Final = pl.Schema({"peer": pl.Int64, "tag": pl.Int64})
#: pattern of the names of calls that send or receive a message; it captures the name of the group
_CALL: Final = r"(?s)^(?:Send|Receive)@(.*)$"
_WORD: Final = 2**32


def peers(
    recording: tables.Recording, calls: pl.DataFrame, process: int, groups: Mapping[str, Sequence[int]]
) -> pl.DataFrame:
    """Return the other rank and the tag of each message among the calls of a process.

    Args:
        recording: the recording. Within the span of each message, an instant names the other rank and the tag.
        calls: `row`, `call` (`OPERATION@GROUP`), `thread`, `start_ns`, `end_ns` of the process.
        process: pid.
        groups: name of a group -> its ranks in the group's order.

    Returns:
        `row` (of the call) and the columns of `PEERS`. A call without an instant for its message has no row.
    """
    marks = recording.instants.filter(pl.col("process") == process, _tells(recording))
    if marks.is_empty():
        return pl.DataFrame(schema={"row": calls.schema["row"], **PEERS})
    told = marks.select(
        "thread",
        "time_ns",
        (recording.names.gather(marks["name"]) == PEER_IN_GROUP).alias("in_group"),
        (pl.col("arg") // _WORD).cast(pl.Int64).alias("other"),
        (pl.col("arg") % _WORD).cast(pl.Int64).alias("tag"),
    )
    messages = calls.with_columns(group=pl.col("call").str.extract(_CALL)).drop_nulls("group").sort("start_ns")
    parts = []
    for (thread,), own in messages.group_by("thread"):
        mine = told.filter(pl.col("thread") == thread)
        place = intervals.locate(mine["time_ns"], own)
        parts.append(mine.with_columns(own["row"].gather(place), own["group"].gather(place)).drop_nulls("row"))
    found = pl.concat(parts) if parts else told.head(0).with_columns(row=0, group=pl.lit(""))
    places = [(group, place, rank) for group, ranks in groups.items() for place, rank in enumerate(ranks)]
    numbers = pl.DataFrame(places, {"group": pl.String, "other": pl.Int64, "rank": pl.Int64}, orient="row")
    return found.join(numbers, on=["group", "other"], how="left", maintain_order="left").select(
        "row", pl.when("in_group").then("rank").otherwise("other").alias("peer"), "tag"
    )


def drawn(recording: tables.Recording) -> pl.DataFrame:
    """Return the instants that a timeline draws: all except the instants that name the other rank of a message.

    Args:
        recording: the recording.
    """
    return recording.instants.filter(~_tells(recording))


def _tells(recording: tables.Recording) -> pl.Expr:
    """Return whether an instant names the other rank of a message."""
    named = recording.names.is_in([PEER, PEER_IN_GROUP]).fill_null(False).arg_true()
    return pl.col("name").is_in(named.implode())
