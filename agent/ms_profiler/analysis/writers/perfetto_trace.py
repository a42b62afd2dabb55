"""trace.pftrace: the timeline as Perfetto's own protobuf trace, for https://ui.perfetto.dev and trace_processor.

The file has the same events as `trace_view.json`. The times in `trace_view.json` are text, because MindStudio Insight
needs text. Perfetto reads these texts as doubles, which have a resolution of 256 ns at today's date, so consecutive
kernels would overlap. The times in `trace.pftrace` are whole nanoseconds since the epoch.

Slices of a track always nest. A slice that would cross another one goes to a further track of the same name. The
category of a slice is that of its span (`op`, `module`, `data`, ...). Arguments are debug annotations. A flow has the
same number as in `trace_view.json`. A step ends where the next one begins. The whole run is in one file, however long
it is. If the run is too large for memory, it is written in sections of time, and modules and operators of later
sections are on further tracks. The format: protos/perfetto/trace in github.com/google/perfetto, and
https://perfetto.dev/docs/reference/synthetic-track-event.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import BinaryIO, Final

import polars as pl

from ms_profiler.analysis.columns import COLUMNS, Choice, Integer, Texts, distinct
from ms_profiler.analysis.columns.track_events import FLOWS, Argument, EventKind, Place, TrackEvents, Truth
from ms_profiler.analysis.driver.sections import COUNT, Section
from ms_profiler.analysis.metrics import intervals, operands
from ms_profiler.analysis.metrics.binding import INFERRED, Bound
from ms_profiler.analysis.metrics.kernels import HOST_CPU
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.metrics.scopes import Part
from ms_profiler.analysis.writers.drawing import Drawing
from ms_profiler.analysis.writers.lanes import (
    COMMUNICATION,
    HOST,
    MODULES,
    OVERLAP,
    OVERLAP_LANES,
    SCOPES,
    STACKS,
    STEPS,
    WHOLE_RUN,
)
from ms_profiler.analysis.writers.tracks import CROSSING, SEQUENCE, RankTrack, Tracks
from ms_profiler.store import layout
from ms_profiler.store.format import Flag, category_name

_NO_FLOWS: Final = pl.DataFrame(schema=FLOWS).rename({"event": "row"})


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    return os.path.join(layout.OUTPUT, layout.PERFETTO_TRACE)


def applies(measures: Measures) -> bool:
    """Return True, because every run has a timeline."""
    return True


def part(measures: Measures, number: int) -> str:
    """Return the path of the only file, which has all sections."""
    return path(measures)


def write(measures: Measures, section: Section, stream: BinaryIO) -> None:
    """Write the events of a section. Before the events of the first section, write the descriptions of the tracks."""
    stride = 1 if section.first and section.last else COUNT
    _draw(_Events(Drawing(measures, section)), stream, SEQUENCE + 1 + section.number, stride)


def write_rank(
    measures: Measures, rank: RankTrack, exchanges: pl.DataFrame, stream: BinaryIO, sequence: int | None = None
) -> int:
    """Write a run as one process of a timeline of several ranks. Return the first packet sequence that is still free.

    Args:
        measures: the measures of the run.
        rank: the process of the rank in the timeline.
        exchanges: the exchanges with other ranks, with the columns `name`, `group`, `start_ns`, `end_ns`, `bytes`,
            `step`, `number`, `flow` and `last`. `number` is the index among the exchanges of the same group and name.
            `flow` is the id of the exchange's flow, or null. `last` says whether the flow ends at this exchange.
        stream: the stream that receives the packets of the trace.
        sequence: id of the first packet sequence that is still free; None if the trace is still empty.
    """
    free = SEQUENCE + 1 if sequence is None else sequence
    for section in measures.sections():
        free = _draw(_Events(Drawing(measures, section, exchanges), rank), stream, free, 1)
    return free


def _draw(events: "_Events", stream: BinaryIO, sequence: int, stride: int) -> int:
    """Write events, and return the number of the first packet sequence that is still free."""
    first = events.drawing.section.first
    place = Place(
        events.tracks.all,
        events.base_ns - events.ahead_ns,
        sequence=sequence,
        stride=stride,
        crossing_uuid=events.uuid + CROSSING,
        # slices of an earlier section may still be open on the tracks of the first section
        further=not first,
    )
    if first:
        stream.write(events.tracks.descriptors)
    for layer in events.all():
        moved = layer.moved(events.uuid, events.ahead_ns) if events.uuid else layer
        place = replace(place, sequence=COLUMNS.track_events(stream.write, place, moved))
    return place.sequence


class _Events:
    """The events of a section, which is a part of the run's time, arranged on Perfetto's tracks."""

    def __init__(self, drawing: Drawing, rank: RankTrack | None = None) -> None:
        self.drawing = drawing
        self.tracks = Tracks(drawing.lanes, rank)
        self.uuid, self.ahead_ns = (rank.uuid, rank.ahead_ns) if rank else (0, 0)
        self.counters = self.tracks.add_counters(drawing.counters, drawing.measures.recording.names)
        self.curves = self.tracks.add_curves(drawing.curves["name"], drawing.lanes.device)
        self.names = Texts(drawing.measures.recording.names)
        starts = [
            *(table["start_ns"] for table in (drawing.steps, drawing.overlap, drawing.whole, drawing.spans)),
            *(table["start_ns"] for table in (drawing.kernels, drawing.scopes, drawing.communication, drawing.copies)),
            drawing.marks["start_ns"],
            drawing.owners["start_ns"],
            drawing.stacks["start_ns"],
            *(table["time_ns"] for table in (drawing.instants, drawing.counters, drawing.curves)),
        ]
        self.base_ns = min((int(str(least)) for times in starts if (least := times.min()) is not None), default=0)

    def all(self) -> Iterator[TrackEvents]:
        """Yield all events. The begin of a flow comes before its end."""
        yield self._spans()
        if not self.drawing.section.first:
            return
        yield self._steps()
        yield self._overlap()
        yield self._whole_run()
        yield self._owners()
        yield self._stacks()
        yield self._instants()
        yield self._counters()
        yield self._curves()
        yield self._kernels()
        yield self._copies()
        yield self._marks()
        yield self._scopes()
        yield self._communication()

    def _steps(self) -> TrackEvents:
        table = self.drawing.steps
        names = Texts(f"ProfilerStep#{number}" for number in table["number"])
        return _slices(_same(self.tracks.place(HOST, STEPS), table), table, _each(names), _named("step", table))

    def _overlap(self) -> TrackEvents:
        table = self.drawing.overlap
        lanes = table["lane"].replace_strict(OVERLAP_LANES, range(len(OVERLAP_LANES)), return_dtype=pl.UInt32)
        first = self.tracks.place(OVERLAP, 0)
        return _slices(lanes + first, table, Texts(OVERLAP_LANES).at(lanes), _named("overlap", table))

    def _whole_run(self) -> TrackEvents:
        table = self.drawing.whole
        first = self.tracks.place(WHOLE_RUN, 0) if table.height else 0
        return _slices(table["lane"] + first, table, distinct(table["part"]), _named("part", table))

    def _owners(self) -> TrackEvents:
        table = self.drawing.owners
        first = self.tracks.place(MODULES, 0) if table.height else 0
        paths = distinct(table["module"])
        return _slices(
            table["depth"] + first, table, distinct(table["name"]), _named("owner", table), {"module": paths}
        )

    def _stacks(self) -> TrackEvents:
        table = self.drawing.stacks
        first = self.tracks.place(STACKS, 0) if table.height else 0
        return _slices(table["lane"] + first, table, distinct(table["name"]), _named("python_function", table))

    def _spans(self) -> TrackEvents:
        spans = self.drawing.spans
        flows = [
            _ends(self.drawing.ties, "source", ends=False),
            _ends(self.drawing.ties, "target", ends=True),
            _ends(self.drawing.launches, "source", ends=False),
        ]
        return _slices(
            self.tracks.of_threads(spans),
            spans,
            self.names.at(spans["name"]),
            _CATEGORIES.at(spans["category"]),
            {
                **({"Input Dims": self.names.at(operands.shapes(spans))} if self.drawing.measures.shaped else {}),
                "step": self._step_of(spans["start_ns"]),
                "raised": Truth(spans["flags"] & Flag.RAISED != 0),
                "abandoned": Truth(spans["flags"] & Flag.ABANDONED != 0),
                "unfinished": Truth(spans["unfinished"]),
            },
            pl.concat(flows),
        )

    def _instants(self) -> TrackEvents:
        instants = self.drawing.instants.with_columns(start_ns="time_ns", end_ns="time_ns")
        return _sorted(
            EventKind.INSTANT,
            self.tracks.of_threads(instants),
            instants,
            self.names.at(instants["name"]),
            _CATEGORIES.at(instants["category"]),
            {"step": self._step_of(instants["start_ns"])},
        )

    def _counters(self) -> TrackEvents:
        table = self.drawing.counters.with_columns(track=self.counters).sort("track", "time_ns", maintain_order=True)
        return TrackEvents(EventKind.COUNTER, table["track"], table["time_ns"], value=table["value"])

    def _curves(self) -> TrackEvents:
        table = self.drawing.curves
        return TrackEvents(EventKind.COUNTER, self.curves, table["time_ns"], value=table["value"])

    def _kernels(self) -> TrackEvents:
        kernels, stream = self.drawing.kernels, self.drawing.measures.stream
        kernels = kernels.with_columns(end_ns=pl.col("start_ns") + pl.col("duration_ns"))
        row, texts = kernels["kernel"], Texts(stream.texts)
        return _slices(
            self.tracks.of_kernels(kernels),
            kernels,
            Texts(stream.names["full_name"]).at(row),
            _named("kernel", kernels),
            {
                "type": _optional(Texts(stream.names["core"].replace({HOST_CPU: "HostCpuOps"})), row),
                "op": _optional(Texts(stream.names["type"]), row),
                "step": self._step_of(kernels["start_ns"]),
                "module": texts.at(kernels["module"]),
                "bound": _optional(_BOUNDS, kernels["bound"]),
                "shapes": texts.at(kernels["shapes"]),
                "part": _optional(_PARTS, kernels["part"]),
            },
            _ends(self.drawing.launched, "target", ends=True),
        )

    def _copies(self) -> TrackEvents:
        copies = self.drawing.copies
        return _slices(
            self.tracks.of_kernels(copies),
            copies,
            distinct(copies["name"]),
            _named("copy", copies),
            {"bytes": Integer(copies["bytes"])},
        )

    def _marks(self) -> TrackEvents:
        marks = self.drawing.marks
        return _slices(
            self.tracks.of_kernels(marks),
            marks,
            distinct(marks["name"]),
            _named("marker", marks),
            {"domain": distinct(marks["domain"])},
        )

    def _scopes(self) -> TrackEvents:
        table = self.drawing.scopes
        # each depth of scopes has a lane, and their places are consecutive: place = place of the first lane + depth
        first = self.tracks.place(SCOPES, 0) if table.height else 0
        return _slices(table["depth"] + first, table, distinct(table["scope"]), _named("scope", table))

    def _communication(self) -> TrackEvents:
        table, groups = self.drawing.communication, self.drawing.lanes.groups
        places = [self.tracks.place(COMMUNICATION, tid) for tid in range(len(groups))]
        flows = _NO_FLOWS
        if "flow" in table.columns:
            joined = table.with_row_index("row").drop_nulls("flow")
            flows = joined.select("row", pl.col("flow").alias("id"), pl.col("last").alias("ends"))
        return _slices(
            table["group"].replace_strict(groups, places, return_dtype=pl.UInt32),
            table,
            distinct(table["name"]),
            _named("exchange", table),
            {name: Integer(table[name]) for name in ("bytes", "number", "step") if name in table.columns},
            flows,
        )

    def _step_of(self, times: pl.Series) -> Integer:
        return Integer(self.drawing.steps["number"].gather(intervals.locate(times, self.drawing.steps)))


def _slices(
    track: pl.Series,
    table: pl.DataFrame,
    name: Choice,
    category: Choice,
    arguments: Mapping[str, Argument] | None = None,
    flows: pl.DataFrame = _NO_FLOWS,
) -> TrackEvents:
    return _sorted(EventKind.SLICE, track, table, name, category, arguments or {}, flows)


def _sorted(
    kind: EventKind,
    track: pl.Series,
    table: pl.DataFrame,
    name: Choice,
    category: Choice,
    arguments: Mapping[str, Argument],
    flows: pl.DataFrame = _NO_FLOWS,
) -> TrackEvents:
    """Return events in the order in which they have to be written: by track and time.

    Args:
        kind: the kind of all events: slices or instants.
        track: the track of each event.
        table: `start_ns` and `end_ns` of each event.
        name: the name of each event.
        category: the category of each event.
        arguments: name of an argument -> its value in each event.
        flows: `row` (the event), `id` (of the flow), `ends` (True if the flow ends at the event, False if it begins).
    """
    order = COLUMNS.order(track.cast(pl.UInt64), table["start_ns"], table["end_ns"])
    found = TrackEvents(
        kind,
        track,
        table["start_ns"],
        table["end_ns"] if kind == EventKind.SLICE else None,
        name=name,
        category=category,
        arguments=arguments,
        flows=flows.sort("row", "id").rename({"row": "event"}),
    )
    return found if order.is_sorted() else found.in_order(order)


def _ends(flows: pl.DataFrame, side: str, *, ends: bool) -> pl.DataFrame:
    """Return one end of each flow, with the columns of the argument `flows` of `_sorted`.

    Args:
        flows: the flows, each with its `id`.
        side: the column of `flows` with the row of the event.
        ends: whether the flows end at these events.
    """
    return flows.select(pl.col(side).cast(pl.UInt32).alias("row"), pl.col("id").cast(pl.Int64), ends=pl.lit(ends))


def _same(row: int, table: pl.DataFrame) -> pl.Series:
    return pl.repeat(row, table.height, dtype=pl.UInt32, eager=True)


def _named(category: str, table: pl.DataFrame) -> Choice:
    """Return the same category for all rows."""
    return Texts([category]).at(_same(0, table))


def _each(texts: Texts) -> Choice:
    return texts.at(pl.int_range(len(texts.series), dtype=pl.UInt32, eager=True))


def _optional(texts: Texts, row: pl.Series) -> Choice:
    """Return the texts at `row` as an argument of events. An event whose text is null does not get the argument."""
    return texts.at(pl.select(pl.when(texts.series.is_not_null().gather(row)).then(row)).to_series())


_CATEGORIES: Final = Texts(category_name(number) for number in range(256))
_BOUNDS: Final = Texts(map(INFERRED.get, sorted(Bound)))
_PARTS: Final = Texts(part.name.lower() if part else None for part in Part)
