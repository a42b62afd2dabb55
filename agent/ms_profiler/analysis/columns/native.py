"""Implement `Columns` with ms-profiler's C extension `ms_profiler._columns`; no other module imports the extension."""

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from io import BufferedWriter, FileIO
from typing import Any, BinaryIO, Final

import polars as pl

from ms_profiler import _columns
from ms_profiler.analysis.columns.protocol import SUMS, Limited
from ms_profiler.analysis.columns.row_parts import Choice, Integer, Part
from ms_profiler.analysis.columns.slots import Coarse, Traced, Wanted
from ms_profiler.analysis.columns.track_events import Argument, Place, TrackEvents

_NO_PARENT: Final = 2**32 - 1


class _Table:
    """A table of the extension, in a form that Polars reads without a copy."""

    def __init__(self, capsules: Any) -> None:
        self._capsules = capsules

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self._capsules


class NativeColumns:
    """Computations on columns in C. `protocol.Columns` describes arguments and results of the methods."""

    kind = "native"

    def coarse(self, pieces: Sequence[bytes], wanted: Wanted, every: int) -> Coarse:
        """Return the slots without fine-grained spans, and a summary of these spans, as `Columns.coarse` describes."""
        table, fine, starts = map(_frame, _columns.coarse(list(pieces), _wanted(wanted), every))
        return Coarse(table, fine, starts.to_series())

    def spans(self, pieces: Sequence[bytes], wanted: Wanted) -> pl.DataFrame:
        """Return the selected spans of a store, as `Columns.spans` describes."""
        return _frame(_columns.spans(list(pieces), _wanted(wanted))).cast({"unfinished": pl.Boolean})

    def devices(self, pieces: Sequence[bytes], wanted: Wanted) -> Traced:
        """Return the device records of a store, as `Columns.devices` describes."""
        # take each column as a table of its own: Polars frees the memory of a table only when no column is in use
        found = _columns.devices(list(pieces), _wanted(wanted))
        return Traced(*(pl.concat(map(_frame, columns), how="horizontal") for columns in found))

    def trim(self) -> None:
        """Return free memory to the system."""
        _columns.trim()

    def order(self, lane: pl.Series, start_ns: pl.Series, end_ns: pl.Series) -> pl.Series:
        """Return the row numbers that sort spans by lane and start, as `Columns.order` describes."""
        return _frame(_columns.order(*map(_column, (lane, start_ns, end_ns)))).to_series()

    def locate(self, times: pl.Series, start_ns: pl.Series, end_ns: pl.Series) -> pl.Series:
        """Find the interval that contains each time, as `Columns.locate` describes."""
        return _frame(_columns.locate(*map(_column, (times, start_ns, end_ns)))).to_series()

    def find(self, pairs: pl.DataFrame, known: pl.DataFrame) -> pl.Series:
        """Find pairs of numbers in a table, as `Columns.find` describes."""
        return _frame(_columns.find(*map(_column, (*pairs, *known)))).to_series()

    def latest(self, queries: pl.DataFrame, known: pl.DataFrame) -> pl.Series:
        """Find the latest entry with the key of each query, as `Columns.latest` describes."""
        return _frame(_columns.latest(*map(_column, (*queries, *known)))).to_series()

    def calls(
        self, lane: pl.Series, start_ns: pl.Series, end_ns: pl.Series, category: pl.Series, name: pl.Series
    ) -> pl.DataFrame:
        """Return module and innermost flag of each operator, as `Columns.calls` describes."""
        columns = (lane, start_ns, end_ns, category, name)
        return _frame(_columns.calls(*map(_column, columns))).cast({"inner": pl.Boolean})

    def sums(
        self, lane: pl.Series, start_ns: pl.Series, end_ns: pl.Series, key: pl.Series, counted: pl.Series
    ) -> tuple[pl.DataFrame, pl.Series]:
        """Sum up spans by a key, as `Columns.sums` describes."""
        sums, still = _columns.sums(*map(_column, (lane, start_ns, end_ns, key, counted.cast(pl.UInt8))))
        new = pl.col("count") > 0
        table = _frame(sums).with_columns(
            pl.when(new).then("min_ns"),
            pl.when(new).then("max_ns"),
            squares=pl.col("high").cast(pl.Int128) * 2**64 + pl.col("low").cast(pl.Int128),
        )
        return table.select(SUMS.names()), _frame(still).to_series().cast(pl.Boolean)

    def nest(self, lane: pl.Series, start_ns: pl.Series, end_ns: pl.Series) -> pl.DataFrame:
        """Return depth and parent of each span, as `Columns.nest` describes."""
        return _frame(_columns.nest(*map(_column, (lane, start_ns, end_ns))))

    def inside(self, parent: pl.Series, start_ns: pl.Series, end_ns: pl.Series, taken: pl.Series) -> pl.Series:
        """Return how much of each span its children cover, as `Columns.inside` describes."""
        known = parent.fill_null(_NO_PARENT)
        return _frame(_columns.inside(*map(_column, (known, start_ns, end_ns, taken.cast(pl.UInt8))))).to_series()

    def rows(self, count: int, parts: Sequence[Part]) -> bytes:
        """Return rows of text that are put together from parts, as `Columns.rows` describes."""
        return _columns.rows(count, [_part(part) for part in parts])

    def write_rows(self, stream: BinaryIO, count: int, parts: Sequence[Part]) -> None:
        """Write rows of text to a file, without the stream's buffer: each call would fill and empty the buffer."""
        if not isinstance(stream, BufferedWriter | FileIO):  # a stream in memory, or one that compresses
            stream.write(self.rows(count, parts))
            return
        stream.flush()
        raw = stream.raw if isinstance(stream, BufferedWriter) else stream
        with raw.written_directly() if isinstance(raw, Limited) else nullcontext(sys.maxsize) as most:
            _columns.write_rows(stream.fileno(), count, [_part(part) for part in parts], most)

    def track_events(self, to: Callable[[bytes], object], place: Place, events: TrackEvents) -> int:
        """Write events of Perfetto's trace, as `Columns.track_events` describes."""
        if events.track.is_empty():
            return place.sequence
        flows = events.flows
        return _columns.track_events(
            to,
            (
                int(events.kind),
                place.base_ns,
                place.sequence,
                place.crossing_uuid,
                place.stride,
                int(place.further),
            ),
            [(track.uuid, track.crossing) for track in place.tracks],
            events.tables,
            (
                _column(events.track),
                _column(events.start_ns),
                None if events.end_ns is None else _column(events.end_ns),
                None if events.value is None else _column(events.value),
                None if events.name is None else _column(events.name.index),
                None if events.category is None else _column(events.category.index),
            ),
            [(name.encode(), *_argument(events, part)) for name, part in events.arguments.items()],
            (_column(flows["event"]), _column(flows["id"]), _column(flows["ends"].cast(pl.UInt8))),
        )


def _argument(events: TrackEvents, part: Argument) -> tuple[int | bool | None, object]:
    """Return an argument of events in the form that the extension expects: its kind, and its column."""
    if isinstance(part, Choice):
        return events.table_of(part), _column(part.index)
    if isinstance(part, Integer):
        return None, _column(part.values.cast(pl.Int64))
    return True, _column(part.values.cast(pl.UInt8))


def _wanted(wanted: Wanted) -> tuple[object, ...]:
    bounds = (wanted.last_ns, *wanted.window, *wanted.between, wanted.fine, *wanted.possible)
    return (_column(wanted.names), wanted.lost, *map(_column, wanted.clock.line), bounds)


def _frame(capsules: object) -> pl.DataFrame:
    return pl.DataFrame(_Table(capsules))


def _column(values: pl.Series) -> object:
    return values.rechunk().__arrow_c_stream__()


def _part(part: Part) -> object:
    if isinstance(part, str):
        return part.encode()
    if isinstance(part, Choice):
        return part.texts.list, _column(part.index)
    return None if isinstance(part, Integer) else True, _column(part.values.cast(pl.Int64))
