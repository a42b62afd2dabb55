"""kineto_trace_{rank}.json: the timeline as a JSON object of PyTorch's Kineto, which Holistic Trace Analysis reads.

The file is written with `export_type` "kineto". It has a folder of its own, because tools like Holistic Trace Analysis
take every JSON file of a folder for the trace of a rank.

Times are microseconds since `baseTimeNanoseconds`, which is the start of the run, rounded down to a second. Such times
are small, so a double holds every nanosecond of a run of up to 52 days. `External id` numbers the spans of the host by
their start. Operators, calls of compiled graphs, and MindSpore's kernels on a CPU have the category `cpu_op`. Steps,
modules and everything else on the host are `user_annotation`. `kineto_device` writes the work of devices. Source of the
form: `output_json.cpp` of github.com/pytorch/kineto.
"""

import json
import os
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, BinaryIO, Final

import polars as pl

from ms_profiler.analysis.columns import CHUNK, Integer, Microseconds, Part, Texts, distinct
from ms_profiler.analysis.driver.sections import Section
from ms_profiler.analysis.metrics import messages, operands
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.writers import json_lines, kineto_device
from ms_profiler.analysis.writers.drawing import Drawing
from ms_profiler.analysis.writers.json_lines import Lines, lines
from ms_profiler.analysis.writers.lanes import CALLS, NATIVE_TID
from ms_profiler.store import layout

FORM: Final = "kineto"
_SECOND: Final = 10**9
#: tid of the steps. No other span has this tid: a step may begin inside a span, and spans of one tid must not cross
_STEPS: Final = 0


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    return os.path.join(layout.KINETO, layout.kineto_trace(measures.recording.info.rank))


def applies(measures: Measures) -> bool:
    """Return whether this form was requested."""
    return FORM in measures.forms


def part(measures: Measures, number: int) -> str:
    """Return the path of the only file of the rank, which has all sections."""
    return path(measures)


def write(measures: Measures, section: Section, stream: BinaryIO) -> None:
    """Write the events of a section, one line per event."""
    rows = _Rows(measures, section)
    info = measures.recording.info
    first, *others = rows.metadata()
    events = rows.all()
    if section.first:
        events = chain([json_lines.texts(others)], events)
        head = {
            "schemaVersion": 1,
            "deviceProperties": [],
            # `json.dumps` writes a space after each colon; Holistic Trace Analysis looks for a text with this space
            "distributedInfo": {"rank": info.rank, "world_size": info.world_size},
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": rows.base_ns,
        }
        stream.write(json.dumps(head)[:-1].encode() + b', "traceEvents": [\n')
    json_lines.write(events, first if section.last else None, stream, pretty=measures.request.pretty)
    if section.last:
        stream.write(b"]}\n")


class _Rows:
    """The events of a section, which is a part of the run's time, as lines of JSON."""

    def __init__(self, measures: Measures, section: Section) -> None:
        self.measures, self.section = measures, section
        recording = measures.recording
        starts = [recording.processes["first_ns"].min(), measures.steps.recorded["start_ns"].min()]
        self.base_ns = min((int(str(start)) for start in starts if start is not None), default=0) // _SECOND * _SECOND
        self.threads = recording.threads.select("process", "thread", tid=NATIVE_TID)
        self.lanes = measures.stream.table.select("process", "lane").unique().sort("process", "lane")
        self.names = json_lines.quoted(recording.names)
        self.kernels = json_lines.quoted(measures.stream.names["full_name"])
        self.dimensions = _dimensions(recording.names, section.spans) if measures.shaped else Texts([])
        device = recording.device
        self.device = kineto_device.Events(measures, device, self.base_ns) if device is not None else None

    def metadata(self) -> list[dict[str, Any]]:
        """Return the `M` events: names of processes and threads."""
        events = []
        for process, role in self.measures.recording.processes.select("process", "role").iter_rows():
            events += [_named("process_name", process, 0, role), _named("thread_name", process, _STEPS, "steps")]
        named = self.measures.recording.threads.join(self.threads, on=["process", "thread"])
        for process, tid, name in named.select("process", "tid", "thread_name").iter_rows():
            events.append(_named("thread_name", process, tid, f"thread {tid} ({name or 'unnamed'})"))
        if self.device is not None:
            return events + self.device.metadata()
        for process, lane in self.lanes.iter_rows():
            events.append(_named("thread_name", process, lane, f"kernels of thread {lane}"))
        return events

    def all(self) -> Iterator[Lines]:
        """Yield all events in pieces."""
        if self.section.first:
            yield self._steps()
        numbered = self.section.spans.with_columns(
            id=pl.col("start_ns").rank("ordinal").cast(pl.Int64) + self.section.before,
            duration_ns=pl.col("end_ns") - pl.col("start_ns"),
        )
        for rows in numbered.iter_slices(CHUNK):
            yield self._spans(rows)
        yield self._ties()
        if self.section.first:
            yield self._instants()
            if self.device is not None:
                yield from self.device.all()
                return
            for rows in self.measures.stream.table.with_row_index("id", offset=self._all_spans() + 1).iter_slices(
                CHUNK
            ):
                yield self._kernels(rows)

    def _all_spans(self) -> int:
        """Return the number of spans in all sections together."""
        recording = self.measures.recording
        return self.measures.spans.height if recording.again is None else recording.spans.height + recording.fine

    def _placed(self, table: pl.DataFrame) -> pl.DataFrame:
        return table.join(self.threads, on=["process", "thread"], how="left", maintain_order="left")

    def _at(self, table: pl.DataFrame, tid: str = "tid", start: str = "start_ns") -> list[Part]:
        """Return the part of the JSON of each event that holds its process, thread and time."""
        return [
            ',"pid":',
            Integer(table["process"]),
            ',"tid":',
            Integer(table[tid]),
            ',"ts":',
            Microseconds(table[start] - self.base_ns),
        ]

    def _lasting(
        self, table: pl.DataFrame, kinds: Part, names: list[Part], tid: str = "tid", more: Sequence[Part] = ()
    ) -> Lines:
        """Return complete events (`X`), one for each row.

        Args:
            table: the spans: `process`, `start_ns`, `duration_ns`, `id`, and the column that `tid` names.
            kinds: the category of each span.
            names: constant texts and values; put together, they are the name of a span with its quotes.
            tid: the column of `table` with the tid of each event.
            more: further arguments of the events, as constant texts and values.
        """
        return lines(
            table.height,
            '{"ph":"X","cat":"',
            kinds,
            '","name":',
            *names,
            *self._at(table, tid),
            ',"dur":',
            Microseconds(table["duration_ns"]),
            ',"args":{"External id":',
            Integer(table["id"]),
            *more,
            "}}",
        )

    def _steps(self) -> Lines:
        steps = self.measures.steps.recorded.select("process", "number", "start_ns", "duration_ns")
        name: list[Part] = ['"ProfilerStep#', Integer(steps["number"]), '"']
        return self._lasting(steps.with_columns(id=pl.lit(0), tid=pl.lit(_STEPS)), "user_annotation", name)

    def _spans(self, spans: pl.DataFrame) -> Lines:
        placed = self._placed(spans)
        more = [self.dimensions.at(operands.shapes(placed))] if self.measures.shaped else []
        return self._lasting(placed, _KINDS.at(placed["category"]), [self.names.at(placed["name"])], more=more)

    def _kernels(self, kernels: pl.DataFrame) -> Lines:
        return self._lasting(kernels, "cpu_op", [self.kernels.at(kernels["kernel"])], "lane")

    def _instants(self) -> Lines:
        instants = self._placed(messages.drawn(self.measures.recording))
        return lines(
            instants.height,
            '{"ph":"i","s":"t","name":',
            self.names.at(instants["name"]),
            *self._at(instants, start="time_ns"),
            "}",
        )

    def _ties(self) -> Lines:
        """Return begins and ends of the flows that lead from an operator to the operator that computes its gradient."""
        flows = self._placed(Drawing(self.measures, self.section).tie_ends)
        return lines(
            flows.height,
            '{"ph":',
            distinct(flows["end"], json_lines.quoted),
            ',"name":"fwdbwd","cat":"fwdbwd","bp":"e","id":',
            Integer(flows["id"]),
            *self._at(flows),
            "}",
        )


def _dimensions(names: pl.Series, spans: pl.DataFrame) -> Texts:
    """Return the argument `Input Dims` for each row of `names` with the shapes of an operator; null for other rows."""
    rows = set(operands.shapes(spans).drop_nulls().unique())
    return Texts(
        f',"Input Dims":{json.dumps(operands.dimensions(name))}' if row in rows else None
        for row, name in enumerate(names)
    )


def _named(what: str, process: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": tid, "args": {"name": name}}


_KINDS: Final = Texts("cpu_op" if number in CALLS else "user_annotation" for number in range(256))
