"""Match operators that two recorders reported: their spans come from PyTorch's callbacks, their operands from Kineto.

With `record_shapes`, PyTorch reports each operator to callbacks of ms-profiler. In some steps it also reports the
operands to Kineto. Both recorders see an operator when it begins, on the thread that runs it. So on each thread both
recorders list the same operators in the same order. There are two exceptions:

- Some regions are reported by only one of the two recorders.
- If a thread was busy when Kineto began or stopped, the two lists differ at their ends.

The recorders' clocks differ by microseconds, and several operators may begin within that time. So operators are
matched by order. Times serve only to choose between possible matches.
"""

from collections.abc import Sequence
from typing import Final

import polars as pl

from ms_profiler.store.format import Category

#: columns of a Kineto record; `time_ns` is the time at which the operator or region began
RECORD: Final = ("name", "category", "time_ns", "arg")
#: columns of the result: thread, begin and name identify a span; `known` is `arg` of the matching record
FOUND: Final = pl.Schema({"thread": pl.UInt32, "start_ns": pl.Int64, "name": pl.UInt32, "known": pl.UInt64})
#: largest difference between the recorders' clocks, ns
SLACK_NS: Final = 1_000_000
#: Which span belongs to the first record is not known. So the span nearest in time is tried, and this many spans before
#: and after that span.
_AROUND: Final = 8
#: a possible match is rated by the time differences of about this many of its pairs
_COMPARED: Final = 200

Record = tuple[int, int, int, int]


def match(described: pl.DataFrame, spans: pl.DataFrame, threads: pl.DataFrame) -> pl.DataFrame:
    """Find the Kineto record that describes the same operator as a span, and return the records' arguments as `FOUND`.

    Args:
        described: the records from Kineto: `window`, `native_tid` and the columns of `RECORD`, sorted by time in each
            window. A window is a period in which Kineto recorded. No record within a window is missing.
        spans: the spans during these windows, with `thread`, `name`, `category` and `start_ns`.
        threads: `thread` and `native_tid` of each thread.
    """
    found: list[tuple[int, int, int, int]] = []
    for (_, tid), own_records in described.group_by("window", "native_tid", maintain_order=True):
        first, last = own_records["time_ns"][0] - SLACK_NS, own_records["time_ns"][-1] + SLACK_NS
        own = spans.filter(
            pl.col("start_ns").is_between(first, last),
            pl.col("thread").is_in(threads.filter(pl.col("native_tid") == tid)["thread"].implode()),
            pl.col("category") == Category.OP,
        ).sort("start_ns", maintain_order=True)
        begun = own.select("name", "category", "start_ns", "thread").rows()
        pairs = _pairs(own_records.select(RECORD).rows(), begun)
        found += [(span[3], span[2], span[0], record[3]) for record, span in pairs if record[3]]
    return pl.DataFrame(found, FOUND, orient="row")


def _pairs(records: Sequence[Record], begun: Sequence[Record]) -> list[tuple[Record, Record]]:
    """Pair records with spans of the same names, in order, so that the median time difference is smallest."""
    if not records or not begun:
        return []
    nearest = min(range(len(begun)), key=lambda row: abs(begun[row][2] - records[0][2]))
    best: list[tuple[Record, Record]] = []
    least = 0
    for place in range(nearest - _AROUND, nearest + _AROUND + 1):
        pairs = _along(records, begun, max(-place, 0), max(place, 0))
        if 2 * len(pairs) < min(len(records), len(begun)):
            continue  # few pairs prove nothing: the ends of the two lists may agree by chance
        off = sorted(abs(record[2] - span[2]) for record, span in pairs[:: len(pairs) // _COMPARED + 1])
        middle = off[len(off) // 2]
        if not best or middle < least:
            best, least = pairs, middle
    return best


def _along(records: Sequence[Record], begun: Sequence[Record], at: int, to: int) -> list[tuple[Record, Record]]:
    """Pair records and spans in their order. If the names of a pair differ, return no pairs at all.

    The record of a region is skipped if its name differs from that of the next span: callbacks may not report regions.

    Args:
        records: the records.
        begun: the spans.
        at: the index of the record to begin with.
        to: the index of the span to begin with.
    """
    pairs = []
    while at < len(records) and to < len(begun):
        record, span = records[at], begun[to]
        if record[0] == span[0]:
            pairs.append((record, span))
            at, to = at + 1, to + 1
        elif record[1] == Category.MARKER:
            at += 1
        else:
            return []
    return pairs
