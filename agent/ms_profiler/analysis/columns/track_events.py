"""Events on the tracks of Perfetto's trace, which `Columns.track_events` writes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TypeAlias

import polars as pl

from ms_profiler.analysis.columns.row_parts import Choice, Integer

#: ends of flows; `event` is the place of the event, in the order in which the flows are
FLOWS = pl.Schema({"event": pl.UInt32, "id": pl.Int64, "ends": pl.Boolean})


class EventKind(IntEnum):
    """Kind of an event; the numbers are those of `msp_event_kind` in native/columns/perfetto.h."""

    SLICE = 0
    INSTANT = 1
    COUNTER = 2


@dataclass(frozen=True)
class Truth:
    """An argument that is true for some events, and that the other events do not have."""

    values: pl.Series


#: argument of an event: a text, a whole number or true; absent if its row is null
Argument: TypeAlias = Choice | Integer | Truth


@dataclass(frozen=True)
class Track:
    """The places of events.

    Attributes:
        uuid: the uuid in the trace.
        crossing: fields of the TrackDescriptor, all but its uuid, of further tracks for slices that cross in this one.
    """

    uuid: int
    crossing: bytes


@dataclass(frozen=True)
class Place:
    """The place of events in a trace.

    Attributes:
        tracks: all tracks.
        base_ns: no event of the trace is earlier.
        sequence: number of the first sequence of packets that is free.
        crossing_uuid: base of the uuids of tracks for crossing slices; the number of a sequence is added.
        stride: the difference between the numbers of successive sequences.
        further: all slices go to further tracks, because unknown slices may be open.
    """

    tracks: list[Track]
    base_ns: int
    sequence: int
    crossing_uuid: int
    stride: int = 1
    further: bool = False


@dataclass(frozen=True)
class TrackEvents:
    """Events of one kind, by track and start, the longest first.

    Attributes:
        kind: the kind of all rows.
        track: the number of the track in a `Place`, UInt32.
        start_ns: Int64.
        end_ns: the end of slices, Int64.
        value: the value of counters, Float64; the name of a counter is that of its track.
        name: the name of slices and instants; none is null.
        category: the category of slices and instants; none is null.
        arguments: the arguments of slices and instants, by name.
        flows: `FLOWS`.
    """

    kind: EventKind
    track: pl.Series
    start_ns: pl.Series
    end_ns: pl.Series | None = None
    value: pl.Series | None = None
    name: Choice | None = None
    category: Choice | None = None
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    flows: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=FLOWS))

    def moved(self, flow: int, ahead_ns: int) -> "TrackEvents":
        """Return the events with other times, and with other numbers of flows where these are below `flow`.

        Args:
            flow: added to the numbers.
            ahead_ns: subtracted from the times.
        """
        number = pl.col("id")
        return replace(
            self,
            start_ns=self.start_ns - ahead_ns,
            end_ns=None if self.end_ns is None else self.end_ns - ahead_ns,
            flows=self.flows.with_columns(pl.when(number < flow).then(number + flow).otherwise(number).alias("id")),
        )

    def in_order(self, order: pl.Series) -> "TrackEvents":
        """Return the events in another order.

        Args:
            order: their places, UInt32.
        """
        flows = self.flows
        if flows.height:
            flows = flows.with_columns(event=order.arg_sort().gather(flows["event"])).sort("event", "id")
        return replace(
            self,
            track=self.track.gather(order),
            start_ns=self.start_ns.gather(order),
            end_ns=None if self.end_ns is None else self.end_ns.gather(order),
            value=None if self.value is None else self.value.gather(order),
            name=None if self.name is None else _gathered(self.name, order),
            category=None if self.category is None else _gathered(self.category, order),
            arguments={
                name: _gathered(part, order)
                if isinstance(part, Choice)
                else replace(part, values=part.values.gather(order))
                for name, part in self.arguments.items()
            },
            flows=flows,
        )

    @property
    def tables(self) -> list[list[str]]:
        """Return the texts that events name: names, categories, and those of arguments, each table once."""
        choices = [self.name, self.category]
        choices += [each for each in self.arguments.values() if isinstance(each, Choice)]
        found: dict[int, list[str]] = {}
        for number, choice in enumerate(choices):
            # names and categories are always the first two, counters have neither
            texts = [] if choice is None else choice.texts.list
            found.setdefault(number if number < 2 else 2 + id(texts), [text or "" for text in texts])
        return list(found.values())

    def table_of(self, argument: Choice) -> int:
        """Return the place in `tables` of the texts that an argument names."""
        lists = [id(each.texts.list) for each in self.arguments.values() if isinstance(each, Choice)]
        return 2 + list(dict.fromkeys(lists)).index(id(argument.texts.list))


def _gathered(choice: Choice, order: pl.Series) -> Choice:
    return choice.texts.at(choice.index.gather(order))
