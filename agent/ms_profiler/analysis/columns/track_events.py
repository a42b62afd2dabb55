"""Events on the tracks of Perfetto's trace, which `Columns.track_events` writes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TypeAlias

import polars as pl

from ms_profiler.analysis.columns.row_parts import Choice, Integer

#: Begins and ends of flows, which are arrows between events. `event` is the row of an event, and `id` the flow. `ends`
#: is true if the flow ends at the event, and false if it begins there. Sorted by `event`.
FLOWS = pl.Schema({"event": pl.UInt32, "id": pl.Int64, "ends": pl.Boolean})


class EventKind(IntEnum):
    """The kind of an event, with the numbers of `msp_event_kind` in native/columns/perfetto.h."""

    SLICE = 0
    INSTANT = 1
    COUNTER = 2


@dataclass(frozen=True)
class Truth:
    """An argument of events that is true or absent: an event whose value is not true lacks the argument."""

    values: pl.Series


#: the values of an argument of events: texts, whole numbers or true. An event whose value is null lacks the argument
Argument: TypeAlias = Choice | Integer | Truth


@dataclass(frozen=True)
class Track:
    """A lane of the trace, to which events belong.

    Attributes:
        uuid: the uuid of the track in the trace.
        crossing: encoded fields of the TrackDescriptor, without uuid, for further tracks of this lane. Slices that
            would cross (overlap without nesting) other slices of the track go to further tracks.
    """

    uuid: int
    crossing: bytes


@dataclass(frozen=True)
class Place:
    """The tracks of a trace, and the numbers that new packets and tracks get.

    Attributes:
        tracks: all tracks.
        base_ns: a time at or before the first event of the trace.
        sequence: number of the first free sequence of packets.
        crossing_uuid: uuid of a further track = crossing_uuid + number of its sequence.
        stride: the difference between the numbers of successive sequences.
        further: whether all slices go to further tracks. This is necessary if an earlier call wrote to these tracks,
            because its slices may still be open.
    """

    tracks: list[Track]
    base_ns: int
    sequence: int
    crossing_uuid: int
    stride: int = 1
    further: bool = False


@dataclass(frozen=True)
class TrackEvents:
    """Events of one kind, sorted by track, start and falling duration.

    Attributes:
        kind: the kind of all events.
        track: for each event, the index of its track in `Place.tracks`, UInt32.
        start_ns: the begin of each event, Int64.
        end_ns: the ends of slices, Int64; only slices have them.
        value: the values of counters, Float64; only counters have them. A counter has the name of its track.
        name: the names of slices and instants; no value is null.
        category: the categories of slices and instants; no value is null.
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
        """Return the events at earlier times and with other numbers of flows.

        Args:
            flow: this number is added to all numbers of flows that are smaller than `flow`.
            ahead_ns: this time is subtracted from all times.
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
            order: for each event of the result, its row in this object, UInt32.
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
        """Return the lists of texts that the events use (names, categories, texts of arguments), each list once."""
        choices = [self.name, self.category]
        choices += [each for each in self.arguments.values() if isinstance(each, Choice)]
        found: dict[int, list[str]] = {}
        for number, choice in enumerate(choices):
            # the first two lists are always names and categories; they are empty for counters
            texts = [] if choice is None else choice.texts.list
            found.setdefault(number if number < 2 else 2 + id(texts), [text or "" for text in texts])
        return list(found.values())

    def table_of(self, argument: Choice) -> int:
        """Return the index in `tables` of the texts that an argument uses."""
        lists = [id(each.texts.list) for each in self.arguments.values() if isinstance(each, Choice)]
        return 2 + list(dict.fromkeys(lists)).index(id(argument.texts.list))


def _gathered(choice: Choice, order: pl.Series) -> Choice:
    return choice.texts.at(choice.index.gather(order))
