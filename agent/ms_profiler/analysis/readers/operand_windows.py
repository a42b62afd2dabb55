"""Match the records of a second recording of operators with the spans of the first recording.

With `record_shapes`, PyTorch reports operators twice: ITT reports their spans, and in some steps Kineto reports their
operands. Both report an operator when it begins, on the thread that runs it. So both have the same operators of a
thread in the same order. There are two exceptions: regions that only one of them reports, and the first and last
operators of threads that were busy when Kineto began or stopped. The two clocks differ by microseconds. Several
operators may begin in this time, so operators are matched by their order. Times only choose between possible matches.
"""

from collections.abc import Sequence
from typing import Final

import polars as pl

from ms_profiler.store.format import Category

#: columns of the record of an operator or region; `time_ns` is its begin
RECORD: Final = ("name", "category", "time_ns", "arg")
#: columns of the result: the begin, thread and name identify a span; `known` is the argument of its record
FOUND: Final = pl.Schema({"thread": pl.UInt32, "start_ns": pl.Int64, "name": pl.UInt32, "known": pl.UInt64})
#: largest difference of the two clocks, ns
SLACK_NS: Final = 1_000_000
#: number of spans, on each side of the nearest one, that are tried as the partner of the first record
_AROUND: Final = 8
#: approximate number of pairs whose times are compared
_COMPARED: Final = 200

Record = tuple[int, int, int, int]


def match(described: pl.DataFrame, spans: pl.DataFrame, threads: pl.DataFrame) -> pl.DataFrame:
    """Return the argument of each span that has a record, as `FOUND`.

    Args:
        described: the records of the second recording: `window`, `native_tid` and the columns of `RECORD`, sorted by
            time in each window. No record within a window is missing.
        spans: the spans of this time, with `thread`, `name`, `category` and `start_ns`.
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
    """Return pairs of a record and its span, from the alignment in which names agree and times differ least."""
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
    """Pair records and spans of equal names from two places on; return no pairs if two names differ.

    A record of a region may have no span; it is then left out.

    Args:
        records: the records.
        begun: the spans.
        at: the index of the first record.
        to: the index of the first span.
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
