"""Match the records of a second recording of operators with the spans of the first.

With `record_shapes`, PyTorch reports operators twice: ITT reports their spans, and in some steps Kineto reports their
operands. Both report an operator when it begins, on the thread that runs it. So both know the same operators of a
thread in the same order. There are two exceptions: regions that only one of them knows, and the first and last
operators of threads that were busy when Kineto began or stopped. The clocks differ by microseconds, in which several
operators may begin. So the order decides, and times choose between several places in the order.
"""

from collections.abc import Sequence
from typing import Final

import polars as pl

from ms_profiler.store.format import Category

#: columns of the record of an operator or region: `time_ns` is its begin
RECORD: Final = ("name", "category", "time_ns", "arg")
#: argument by span, identified by its begin: a thread begins two spans of a name at different times
FOUND: Final = pl.Schema({"thread": pl.UInt32, "start_ns": pl.Int64, "name": pl.UInt32, "known": pl.UInt64})
#: largest difference of the two clocks
SLACK_NS: Final = 1_000_000
#: number of windows around the nearest one that are tried
_AROUND: Final = 8
#: approximate number of pairs whose times are compared
_COMPARED: Final = 200

Record = tuple[int, int, int, int]


def match(told: pl.DataFrame, spans: pl.DataFrame, threads: pl.DataFrame) -> pl.DataFrame:
    """Return the argument of each span that has a record, as `FOUND`.

    Args:
        told: the records: `window` (a window lacks no record), `native_tid` and the columns of `RECORD`, by time in
            each window.
        spans: `thread`, `name`, `category`, `start_ns`, of the time in question.
        threads: `thread`, `native_tid`.
    """
    found: list[tuple[int, int, int, int]] = []
    for (_, tid), records in told.group_by("window", "native_tid", maintain_order=True):
        first, last = records["time_ns"][0] - SLACK_NS, records["time_ns"][-1] + SLACK_NS
        own = spans.filter(
            pl.col("start_ns").is_between(first, last),
            pl.col("thread").is_in(threads.filter(pl.col("native_tid") == tid)["thread"].implode()),
            pl.col("category") == Category.OP,
        ).sort("start_ns", maintain_order=True)
        begun = own.select("name", "category", "start_ns", "thread").rows()
        pairs = _pairs(records.select(RECORD).rows(), begun)
        found += [(span[3], span[2], span[0], record[3]) for record, span in pairs if record[3]]
    return pl.DataFrame(found, FOUND, orient="row")


def _pairs(told: Sequence[Record], begun: Sequence[Record]) -> list[tuple[Record, Record]]:
    """Return each record with its span, for the alignment in which names agree and times differ least."""
    if not told or not begun:
        return []
    nearest = min(range(len(begun)), key=lambda row: abs(begun[row][2] - told[0][2]))
    best: list[tuple[Record, Record]] = []
    least = 0
    for place in range(nearest - _AROUND, nearest + _AROUND + 1):
        pairs = _along(told, begun, max(-place, 0), max(place, 0))
        if 2 * len(pairs) < min(len(told), len(begun)):
            continue  # at the very end of both lists, any names agree
        off = sorted(abs(record[2] - span[2]) for record, span in pairs[:: len(pairs) // _COMPARED + 1])
        middle = off[len(off) // 2]
        if not best or middle < least:
            best, least = pairs, middle
    return best


def _along(told: Sequence[Record], begun: Sequence[Record], at: int, to: int) -> list[tuple[Record, Record]]:
    """Pair records and spans of equal names from these places on; return no pairs if the names of two differ.

    Args:
        told: the records.
        begun: the spans.
        at: the first record.
        to: the first span.
    """
    pairs = []
    while at < len(told) and to < len(begun):
        record, span = told[at], begun[to]
        if record[0] == span[0]:
            pairs.append((record, span))
            at, to = at + 1, to + 1
        elif record[1] == Category.MARKER:
            at += 1
        else:
            return []
    return pairs
