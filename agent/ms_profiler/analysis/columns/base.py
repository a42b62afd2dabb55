"""What both kinds of `Columns` can do."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeAlias

import polars as pl

from ms_profiler.store import format as fmt

if TYPE_CHECKING:
    from ms_profiler.analysis.columns.track_events import Place, TrackEvents

#: what `Columns.slots` returns: the fields of a slot, and the number of the thread that wrote it
SLOTS = pl.Schema(
    {
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "arg": pl.UInt64,
        "id": pl.UInt32,
        "kind": pl.UInt8,
        "category": pl.UInt8,
        "flags": pl.UInt8,
        "thread": pl.UInt32,
    }
)

#: thread of the slots before the first one that names a thread
NO_THREAD = 2**32 - 1
SLOT_SIZE = fmt.SLOT_SIZE


class Texts:
    """Texts that rows name by their index."""

    def __init__(self, texts: Iterable[str | None]) -> None:
        """Keep the texts; None stands for no text."""
        self.series = pl.Series(texts, dtype=pl.String)

    @cached_property
    def list(self) -> list[str | None]:
        """Return them as a list."""
        return self.series.to_list()

    def at(self, index: pl.Series) -> "Choice":
        """Return the part of a row that is one of them."""
        return Choice(self, index)


@dataclass(frozen=True)
class Choice:
    """The part of a row that is one of several texts; nothing where the index is null."""

    texts: Texts
    index: pl.Series


@dataclass(frozen=True)
class Integer:
    """The part of a row that is a whole number; nothing where it is null."""

    values: pl.Series


@dataclass(frozen=True)
class Microseconds:
    """The part of a row that is microseconds with three decimals; nothing where it is null.

    Attributes:
        values: nanoseconds.
    """

    values: pl.Series


#: of a row: a text that is the same in all, or one that is made of a column
Part: TypeAlias = str | Choice | Integer | Microseconds


class Columns(Protocol):
    """Work on columns."""

    #: "native" or "plain"
    kind: str

    def slots(self, slots: bytes) -> pl.DataFrame:
        """Return slots as `SLOTS`; the thread of a slot is that of the last THREAD slot before it.

        Args:
            slots: whole slots of the store.
        """

    def nest(self, lane: pl.Series, start_ns: pl.Series, end_ns: pl.Series) -> pl.DataFrame:
        """Return spans by lane and start, the longest first, with the depth and the parent of each.

        In that order, with i the place of a span, depth(i) = i - (spans of its lane that ended at or before start(i)),
        and the parent of i is the last place before i with depth(i) - 1. A span without duration counts as one
        nanosecond long, so that it stands in something.

        Args:
            lane: UInt64; spans of a lane may stand in each other.
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
            count: of rows.
            parts: of a row.
        """

    def write_rows(self, stream: BinaryIO, count: int, parts: Sequence[Part]) -> None:
        """Write what `rows` returns.

        Args:
            stream: a file, or what takes bytes in place of one.
            count: of rows.
            parts: of a row.
        """

    def track_events(self, to: Callable[[bytes], object], place: "Place", events: "TrackEvents") -> int:
        """Write events of Perfetto's trace, and return the number of the next sequence of packets that is free.

        A track is a sequence of its own; its first packet holds the defaults of the others, and times are deltas. A
        slice that would cross one that is open goes to the first further track of its lane where it does not.

        Args:
            to: takes the bytes.
            place: where the events stand.
            events: all of them.
        """
