"""The interface `Columns`, which `native` implements with the C extension and `plain` with Polars."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol, runtime_checkable

import polars as pl

from ms_profiler.analysis.columns.row_parts import Part
from ms_profiler.analysis.columns.slots import Coarse, Traced, Wanted
from ms_profiler.analysis.columns.track_events import Place, TrackEvents

#: number of rows of text that are made in one batch
CHUNK = 100_000


#: A table with a row for each key: sums of durations, self times and squared durations over all spans with the key. The
#: sum of squares is an exact whole number, so that a variance does not depend on the order of the spans.
SUMS = pl.Schema(
    {
        "key": pl.UInt64,
        "count": pl.UInt64,
        "total_ns": pl.Int64,
        "self_ns": pl.Int64,
        "min_ns": pl.Int64,  # null if all spans of the key had been summed up before
        "max_ns": pl.Int64,  # null in the same rows as `min_ns`
        "squares": pl.Int128,
    }
)


@runtime_checkable
class Limited(Protocol):
    """A file that may take a limited number of bytes."""

    def written_directly(self) -> AbstractContextManager[int]:
        """Yield the number of bytes that the body of the `with` statement may write to the file's descriptor."""


class Columns(Protocol):
    """Computations on columns of a recording."""

    #: name of the implementation: "native" or "plain"
    kind: str

    def coarse(self, pieces: Sequence[bytes], wanted: Wanted, every: int) -> Coarse:
        """Return the slots (records) of a store, except for modules and operators, of which it returns a summary.

        Args:
            pieces: parts of a store, each of whole slots. A slot belongs to the thread of the last THREAD slot before
                it in the same piece.
            wanted: the meaning of the numbers in slots, and the window of the run. `between` and `fine` are ignored.
            every: the result has the start of every n-th fine-grained span of a piece, from the first on; n = `every`.
        """

    def spans(self, pieces: Sequence[bytes], wanted: Wanted) -> pl.DataFrame:
        """Return the selected spans as `slots.DECODED`, in the order of the slots.

        Args:
            pieces: the slots, as for `coarse`.
            wanted: the selection of spans, and the meaning of their numbers.
        """

    def devices(self, pieces: Sequence[bytes], wanted: Wanted) -> Traced:
        """Return the records of an accelerator's tracing, in the order of the slots.

        Args:
            pieces: the slots, as for `coarse`.
            wanted: the names and the clock of the run. Its selection of spans is ignored.
        """

    def trim(self) -> None:
        """Return the memory of dropped tables to the system.

        Call it after tables of millions of rows were dropped. Without it, 400 MB stayed after 10 million records.
        """

    def order(self, lane: pl.Series, start_ns: pl.Series, end_ns: pl.Series) -> pl.Series:
        """Return the row numbers (UInt32) that sort spans by lane, start and falling duration. Ties keep their order.

        Args:
            lane: the lane of each span, UInt64.
            start_ns: the start of each span, Int64.
            end_ns: the end of each span, Int64.
        """

    def locate(self, times: pl.Series, start_ns: pl.Series, end_ns: pl.Series) -> pl.Series:
        """Return, for each time, the row (UInt32) of the interval that contains the time; null without an interval.

        Args:
            times: the times to locate, Int64.
            start_ns: Int64, the sorted starts of intervals that do not overlap.
            end_ns: Int64, the ends of these intervals; an end does not belong to its interval.
        """

    def find(self, pairs: pl.DataFrame, known: pl.DataFrame) -> pl.Series:
        """Find pairs of numbers in a table. Return the row of each pair in `known`, UInt32; null if `known` lacks it.

        Args:
            pairs: the pairs to find: two columns, UInt32.
            known: the table to search, with the same two columns. Of equal pairs, the first row counts.
        """

    def latest(self, queries: pl.DataFrame, known: pl.DataFrame) -> pl.Series:
        """Return, for each query, the row of the latest entry that has the key of the query and is not later.

        Args:
            queries: two columns: the key, UInt32, and the time, Int64.
            known: the entries, with the same two columns, sorted by time. Of entries with equal keys and times, the
                last counts.

        Returns:
            Rows of `known`, UInt32; null for a query without a matching entry.
        """

    def calls(
        self, lane: pl.Series, start_ns: pl.Series, end_ns: pl.Series, category: pl.Series, name: pl.Series
    ) -> pl.DataFrame:
        """Return, for each operator, its module, and whether no operator is inside of it.

        The result has a row for each span. The values of spans that are not operators have no meaning.

        Args:
            lane: the lane of each span, UInt64; each thread is a lane.
            start_ns: the start of each span, Int64.
            end_ns: the end of each span, Int64; no span ends before it starts.
            category: the category of each span, UInt8; spans that are neither operators nor modules are ignored.
            name: the name of each span, as a number, UInt32.

        Returns:
            `module` (UInt32): the name of the innermost module around the operator's start, null outside of all
            modules. A module that ends later than the module in which it began counts as ended with that module.
            `inner` (Boolean): whether no other operator of the thread began during this operator. An operator without
            duration counts as one nanosecond long.
        """

    def sums(
        self, lane: pl.Series, start_ns: pl.Series, end_ns: pl.Series, key: pl.Series, counted: pl.Series
    ) -> tuple[pl.DataFrame, pl.Series]:
        """Sum up spans by a key.

        If the only span directly inside an operator is an operator with the same key, the inner operator does not
        count: only its self time is added.

        Args:
            lane: the lane of each span, UInt64; spans of a lane may contain each other.
            start_ns: the start of each span, Int64.
            end_ns: the end of each span, Int64; no span ends before it starts.
            key: UInt64, 256 * name + category.
            counted: Boolean, whether a span has been summed up before. Such a span is not summed up again; new spans
                inside of it only reduce its self time.

        Returns:
            `SUMS`, in no order, and for each span whether it is still open when the last span of its lane begins,
            Boolean.
        """

    def nest(self, lane: pl.Series, start_ns: pl.Series, end_ns: pl.Series) -> pl.DataFrame:
        """Return the spans sorted by lane, start and falling duration, with the depth and the parent of each span.

        Let the spans of a lane have the numbers i = 0, 1, 2, ... in this order:

            depth(i) = i - (number of spans of the lane that ended at or before start(i))
            parent(i) = the largest j < i with end(j) > start(i)

        So no two children of a span cover the same time, even if spans cross. A span without duration counts as one
        nanosecond long, so that it can lie inside of other spans.

        Args:
            lane: the lane of each span, UInt64; spans of a lane may contain each other.
            start_ns: the start of each span, Int64.
            end_ns: the end of each span, Int64; no span ends before it starts.

        Returns:
            `row` (UInt32): the index of the span in the arguments. `depth` (UInt16): at most 65535. `parent` (UInt32):
            a row of this result, null at depth 0.
        """

    def inside(self, parent: pl.Series, start_ns: pl.Series, end_ns: pl.Series, taken: pl.Series) -> pl.Series:
        """Return, for each span, how much of its time its children cover.

        Args:
            parent: the row of each span's parent, UInt32; null for a span without a parent.
            start_ns: the start of each span, Int64.
            end_ns: the end of each span, Int64.
            taken: whether the span counts as a child of its parent, Boolean.

        Returns:
            Int64 nanoseconds: the sum of min(end(j), end(i)) - start(j) over all j with parent(j) = i.
        """

    def rows(self, count: int, parts: Sequence[Part]) -> bytes:
        """Return rows of text in UTF-8. Each row is the concatenation of its parts.

        Args:
            count: the number of rows.
            parts: the parts of a row: constant texts, and columns with a value for each row.
        """

    def write_rows(self, stream: BinaryIO, count: int, parts: Sequence[Part]) -> None:
        """Write rows of text, which `rows` would return, to a file.

        Args:
            stream: a file, or any other object with a method `write` for bytes.
            count: the number of rows.
            parts: the parts of a row.
        """

    def track_events(self, to: Callable[[bytes], object], place: Place, events: TrackEvents) -> int:
        """Write events of Perfetto's trace, and return the number of the first free sequence of packets.

        Each track has its own sequence of packets. The first packet of a sequence has defaults for the other packets.
        Times are written as differences. On a track, slices have to nest. If a slice overlaps an open slice without
        nesting, it goes to the first further track of its lane on which it nests.

        Args:
            to: the file that receives the bytes.
            place: the tracks of the trace, and the numbers for new packets and tracks.
            events: all events to write.
        """
