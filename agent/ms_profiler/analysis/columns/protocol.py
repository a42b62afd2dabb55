"""The interface of `Columns`, which the extension and Polars both implement."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol, runtime_checkable

import polars as pl

from ms_profiler.analysis.columns.row_parts import Part
from ms_profiler.analysis.columns.slots import Coarse, Traced, Wanted
from ms_profiler.analysis.columns.track_events import Place, TrackEvents

#: rows of text in one batch
CHUNK = 100_000


#: spans by key: sums of durations, of self times, and of squared durations (exact, so that a
#: variance does not depend on the order of the sum)
SUMS = pl.Schema(
    {
        "key": pl.UInt64,
        "count": pl.UInt64,
        "total_ns": pl.Int64,
        "self_ns": pl.Int64,
        "min_ns": pl.Int64,  # null if all had been counted
        "max_ns": pl.Int64,  # likewise
        "squares": pl.Int128,
    }
)


@runtime_checkable
class Limited(Protocol):
    """A file that may take a limited number of bytes."""

    def written_directly(self) -> AbstractContextManager[int]:
        """Yield the bytes that the block may write into the descriptor itself, past the object; see `room.Bounded`."""


class Columns(Protocol):
    """Work on columns."""

    #: "native" or "plain"
    kind: str

    def coarse(self, pieces: Sequence[bytes], wanted: Wanted, every: int) -> Coarse:
        """Return slots of the store without the fine-grained spans, and counts of these.

        Args:
            pieces: whole slots of the store; the thread of a slot is that of the last THREAD slot before it in its
                piece.
            wanted: its window; times and names do not matter here.
            every: the starts of the first fine-grained span of a piece, and of every so many later ones, are returned.
        """

    def spans(self, pieces: Sequence[bytes], wanted: Wanted) -> pl.DataFrame:
        """Return spans as `slots.DECODED`, in the order of the slots.

        Args:
            pieces: the slots, as for `coarse`.
            wanted: the selection of spans, and the meaning of their numbers.
        """

    def devices(self, pieces: Sequence[bytes], wanted: Wanted) -> Traced:
        """Return the records of an accelerator's tracing, in the order of the slots.

        Args:
            pieces: the slots, as for `coarse`.
            wanted: the meaning of names and times; its bounds do not matter.
        """

    def order(self, lane: pl.Series, start_ns: pl.Series, end_ns: pl.Series) -> pl.Series:
        """Return the rows of spans by lane and start, the longest first, otherwise as they are, as UInt32.

        Args:
            lane: UInt64.
            start_ns: Int64.
            end_ns: Int64.
        """

    def locate(self, times: pl.Series, start_ns: pl.Series, end_ns: pl.Series) -> pl.Series:
        """Return for each time the row of the interval that contains it, as UInt32; null if none does.

        Args:
            times: Int64.
            start_ns: Int64, of intervals apart from each other and by time.
            end_ns: Int64; the end of an interval does not belong to it.
        """

    def find(self, pairs: pl.DataFrame, known: pl.DataFrame) -> pl.Series:
        """Return for each pair its row among the known pairs, as UInt32; null if it is not among them.

        Args:
            pairs: two columns, UInt32.
            known: the same two; of equal pairs the first counts.
        """

    def latest(self, asked: pl.DataFrame, known: pl.DataFrame) -> pl.Series:
        """Return for each key the row of the latest known entry with this key, as UInt32; null if there is none by that
        time.

        Args:
            asked: two columns: keys, UInt32, and the latest time of known entries that count, Int64.
            known: likewise, with the time of each entry, sorted by time; of equal times the last counts.
        """

    def calls(
        self, lane: pl.Series, start_ns: pl.Series, end_ns: pl.Series, category: pl.Series, name: pl.Series
    ) -> pl.DataFrame:
        """Return facts about each operator: the module around it, whether operators are inside, and the wait before it.
        Rows of other spans have no meaning.

        Args:
            lane: UInt64, of the threads.
            start_ns: Int64.
            end_ns: Int64, none before its start.
            category: UInt8; spans that are neither operators nor modules are ignored.
            name: UInt32.

        Returns:
            `module` (UInt32, name of the innermost module around the start, null outside of all; one that outlives the
            one it began in counts up to the end of that one), `inner` (Boolean, whether no other operator of the thread
            began in it; one without duration counts as a nanosecond long) and `wait_ns` (Int64, of inner ones: since
            the latest end of the inner ones before, at least 0, and 0 for the first; null for others).
        """

    def sums(
        self, lane: pl.Series, start_ns: pl.Series, end_ns: pl.Series, key: pl.Series, counted: pl.Series
    ) -> tuple[pl.DataFrame, pl.Series]:
        """Sum up spans by a key; an operator that is the only content of one with the same key adds to the self time
        only.

        Args:
            lane: UInt64; spans of a lane may contain each other.
            start_ns: Int64.
            end_ns: Int64, none before its start.
            key: UInt64, a name times 256 and a category.
            counted: Boolean, which spans have been summed up before; other spans inside of these only reduce their self
                time.

        Returns:
            `SUMS`, in no order, and whether each span is still open when the last span of its lane begins, Boolean.
        """

    def nest(self, lane: pl.Series, start_ns: pl.Series, end_ns: pl.Series) -> pl.DataFrame:
        """Return spans by lane and start, the longest first, with the depth and the parent of each.

        In that order, with i the place of a span, depth(i) = i - (spans of its lane that ended at or before start(i)),
        and the parent of i is the last place before i that ends after start(i): so the spans inside of a span cover no
        time twice, even where spans cross. A span without duration counts as one nanosecond long, so that it has a
        place inside of others.

        Args:
            lane: UInt64; spans of a lane may contain each other.
            start_ns: Int64.
            end_ns: Int64, none before its start.

        Returns:
            `row` (UInt32, of the arguments), `depth` (UInt16, at most 65535), `parent` (UInt32, a place in this order,
            null at depth 0).
        """

    def inside(self, parent: pl.Series, start_ns: pl.Series, end_ns: pl.Series, taken: pl.Series) -> pl.Series:
        """Return for each span the time in it of those that name it as their parent.

        Args:
            parent: UInt32, a row; null where there is none.
            start_ns: Int64.
            end_ns: Int64.
            taken: Boolean, which spans count.

        Returns:
            Int64 nanoseconds: the sum of min(end(j), end(i)) - start(j) over all j with parent(j) = i.
        """

    def rows(self, count: int, parts: Sequence[Part]) -> bytes:
        """Return rows of text, in UTF-8, each its parts one after the other.

        Args:
            count: the number of rows.
            parts: the parts of a row.
        """

    def write_rows(self, stream: BinaryIO, count: int, parts: Sequence[Part]) -> None:
        """Write rows of text, as `rows` returns them.

        Args:
            stream: a file, or an object that receives bytes in its place.
            count: the number of rows.
            parts: the parts of a row.
        """

    def track_events(self, to: Callable[[bytes], object], place: Place, events: TrackEvents) -> int:
        """Write events of Perfetto's trace, and return the number of the next sequence of packets that is free.

        A track is a sequence of its own; its first packet holds the defaults of the others, and times are deltas. A
        slice that would cross one that is open goes to the first further track of its lane where it does not.

        Args:
            to: the file that receives the bytes.
            place: the place of the events in the trace.
            events: all events to write.
        """
