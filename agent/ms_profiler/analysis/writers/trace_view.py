"""trace_view.json: the timeline that MindStudio Insight, Perfetto, chrome://tracing and msprof-analyze open.

The file is a JSON list of events, as in MindSpore's public profiler documents: `X` (duration), `M` (metadata), `C`
(counter), `s` and `f` (begin and end of a flow). `ts` (since the epoch) and `dur` are strings: microseconds with three
decimals, which are exact. An instant is an `X` of duration 0, because MindStudio Insight does not read the kind that
the format has for instants.

Steps, and calls of operators and compiled graphs on the host, have the category `cpu_op`, because msprof-analyze looks
for them in this category. No other event has this category. Kernels that ran on the CPU are in the process `CPU OP`. A
flow leads to a kernel from its launch, if the launch is known.

A run that is too large for memory is divided into sections of time, with a file for each. Viewers can open each file by
itself. The first file has everything except the operators and modules that begin in later sections.
"""

import os
from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO, Final

import polars as pl

from ms_profiler.analysis.columns import CHUNK, COLUMNS, Choice, Integer, Microseconds, Texts, distinct
from ms_profiler.analysis.driver.sections import Section
from ms_profiler.analysis.metrics import intervals, operands
from ms_profiler.analysis.metrics.binding import INFERRED, Bound
from ms_profiler.analysis.metrics.kernels import HOST_CPU
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.metrics.scopes import Part
from ms_profiler.analysis.writers import json_lines
from ms_profiler.analysis.writers.core import PACKED
from ms_profiler.analysis.writers.drawing import Drawing
from ms_profiler.analysis.writers.json_lines import Lines, lines
from ms_profiler.analysis.writers.lanes import (
    CALLS,
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
from ms_profiler.store import layout
from ms_profiler.store.format import Flag, category_name

_THREAD: Final = ["process", "thread"]
_LANE: Final = ["process", "lane"]
#: name and category of the flows from launches to kernels
_FLOW: Final = '"name":"mindspore_to_self","cat":"async_mindspore","bp":"e"'


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    return part(measures, 0)


def applies(measures: Measures) -> bool:
    """Return True, because every run has a timeline."""
    return True


def part(measures: Measures, number: int) -> str:
    """Return the path of the file for a section."""
    name = layout.trace_slice(number) if number else layout.TRACE_VIEW
    return os.path.join(layout.OUTPUT, name + PACKED * measures.request.packed)


def write(measures: Measures, section: Section, stream: BinaryIO) -> None:
    """Write a section, one line for each event."""
    rows = _Rows(measures, section)
    first, *others = rows.drawing.lanes.metadata()
    stream.write(b"[\n")
    json_lines.write(chain([json_lines.texts(others)], rows.all()), first, stream, pretty=measures.request.pretty)
    stream.write(b"]\n")


class _Rows:
    """The events of a section, which is a part of the run's time, as lines of JSON."""

    def __init__(self, measures: Measures, section: Section) -> None:
        self.measures = measures
        self.drawing = Drawing(measures, section)
        self.names = json_lines.quoted(measures.recording.names)
        self.places = _Places(self.drawing.lanes.threads, _THREAD)
        self.kernel_places = _Places(self.drawing.lanes.kernels, _LANE)
        self.dimensions = _argument("Input Dims", measures.recording.names) if measures.shaped else _NO_TEXTS
        self.step_texts = Texts(f',"step":{number}' for number in self.drawing.steps["number"])

    def all(self) -> Iterator[Lines]:
        """Yield all events in pieces."""
        if self.drawing.section.first:
            yield self._steps()
            yield self._overlap()
            yield self._whole_run()
            yield self._owners()
            yield _plain(self.drawing.stacks, "name", STACKS, "lane", "python_function")
        for spans in self.drawing.spans.iter_slices(CHUNK):
            yield self._spans(spans)
        yield self._ties()
        if self.drawing.section.first:
            yield from self._whole()

    def _whole(self) -> Iterator[Lines]:
        """Yield the events of tables that are not divided into sections. The first file of the timeline has them."""
        yield self._spans(
            self.drawing.instants.with_columns(
                start_ns="time_ns", end_ns="time_ns", flags=pl.lit(0, pl.UInt8), unfinished=pl.lit(False)
            )
        )
        yield self._counters(self.drawing.counters)
        yield self._curves(self.drawing.curves)
        yield from self._kernels()
        yield self._copies()
        yield self._marks()
        yield self._communication()

    def _spans(self, spans: pl.DataFrame) -> Lines:
        # index into `_MARKS`: the flags RAISED and ABANDONED, and, in the place of the bit UNRECORDED, "unfinished"
        marks = spans["flags"] % Flag.UNRECORDED + spans["unfinished"].cast(pl.UInt8) * Flag.UNRECORDED
        return lines(
            spans.height,
            '{"ph":"X","name":',
            self.names.at(spans["name"]),
            self.places.of(spans),
            Microseconds(spans["start_ns"]),
            '","dur":"',
            Microseconds(spans["end_ns"] - spans["start_ns"]),
            _CATEGORIES.at(spans["category"]),
            self._step_of(spans["start_ns"]),
            _MARKS.at(marks),
            *self._dimensions_of(spans),
            "}}",
        )

    def _dimensions_of(self, spans: pl.DataFrame) -> list[Choice]:
        if not self.measures.shaped or "arg" not in spans.columns:
            return []
        return [self.dimensions.at(operands.shapes(spans))]

    def _ties(self) -> Lines:
        """Return begins and ends of the flows that lead from an operator to the operator that computes its gradient."""
        flows = self.drawing.tie_ends
        return lines(
            flows.height,
            '{"ph":',
            distinct(flows["end"], json_lines.quoted),
            ',"name":"fwdbwd","cat":"fwdbwd","bp":"e","id":',
            Integer(flows["id"]),
            self.places.of(flows),
            Microseconds(flows["start_ns"]),
            '"}',
        )

    def _step_of(self, times: pl.Series) -> Choice:
        return self.step_texts.at(intervals.locate(times, self.drawing.steps))

    def _steps(self) -> Lines:
        table = self.drawing.steps
        # If a step begins exactly when the previous step ends, msprof-analyze takes it for a part of the previous step.
        # So the previous step gets an end that is a nanosecond earlier.
        touches = table["end_ns"] == table["start_ns"].shift(-1)
        lengths = table["duration_ns"] - touches.fill_null(False).cast(pl.Int64)
        return lines(
            table.height,
            '{"ph":"X","name":"ProfilerStep#',
            Integer(table["number"]),
            f'","pid":{HOST},"tid":{STEPS},"ts":"',
            Microseconds(table["start_ns"]),
            '","dur":"',
            Microseconds(lengths.clip(lower_bound=0)),
            '","cat":"cpu_op","args":{}}',
        )

    def _overlap(self) -> Lines:
        table = self.drawing.overlap
        tids = {name: f'{name}","pid":{OVERLAP},"tid":{tid},"ts":"' for tid, name in enumerate(OVERLAP_LANES)}
        rows = table["lane"].replace_strict(list(tids), range(len(tids)), return_dtype=pl.UInt32)
        return lines(
            table.height,
            '{"ph":"X","name":"',
            Texts(tids.values()).at(rows),
            Microseconds(table["start_ns"]),
            '","dur":"',
            Microseconds(table["end_ns"] - table["start_ns"]),
            '","cat":"","args":{}}',
        )

    def _whole_run(self) -> Lines:
        return _plain(self.drawing.whole, "part", WHOLE_RUN, "lane")

    def _owners(self) -> Lines:
        owners = self.drawing.owners
        paths = Texts(f',"tid":{depth},"ts":"' for depth in range(self.drawing.lanes.modules))
        return lines(
            owners.height,
            '{"ph":"X","name":',
            distinct(owners["name"], json_lines.quoted),
            f',"pid":{MODULES}',
            paths.at(owners["depth"]),
            Microseconds(owners["start_ns"]),
            '","dur":"',
            Microseconds(owners["end_ns"] - owners["start_ns"]),
            '","cat":"","args":{',
            distinct(owners["module"], _module_of),
            "}}",
        )

    def _counters(self, counters: pl.DataFrame) -> Lines:
        return lines(
            counters.height,
            '{"ph":"C","name":',
            self.names.at(counters["name"]),
            self.places.of(counters),
            Microseconds(counters["time_ns"]),
            '","args":{"value":',
            distinct(counters["value"], json_lines.quoted),
            "}}",
        )

    def _curves(self, curves: pl.DataFrame) -> Lines:
        return lines(
            curves.height,
            '{"ph":"C","name":',
            distinct(curves["name"], json_lines.quoted),
            f',"pid":{self.drawing.lanes.device},"tid":0,"ts":"',
            Microseconds(curves["time_ns"]),
            '","args":{"value":',
            distinct(curves["value"], json_lines.quoted),
            "}}",
        )

    def _kernels(self) -> Iterator[Lines]:
        """Yield the kernels, the flows to the kernels, and the scopes, which are the first parts of kernels' names."""
        stream = self.measures.stream
        if stream.table.is_empty():
            return
        names = json_lines.quoted(stream.names["full_name"])
        types = json_lines.quoted(stream.names["type"])
        cores = Texts(stream.names["core"].replace({HOST_CPU: "HostCpuOps"}))
        modules, shapes = _argument("module", stream.texts), _argument("shapes", stream.texts)
        for kernels in self.drawing.kernels.iter_slices(CHUNK):
            yield lines(
                kernels.height,
                '{"ph":"X","name":',
                names.at(kernels["kernel"]),
                self.kernel_places.of(kernels),
                Microseconds(kernels["start_ns"]),
                '","dur":"',
                Microseconds(kernels["duration_ns"]),
                '","cat":"","args":{"type":"',
                cores.at(kernels["kernel"]),
                '","op":',
                types.at(kernels["kernel"]),
                self._step_of(kernels["start_ns"]),
                modules.at(kernels["module"]),
                _BOUNDS.at(kernels["bound"]),
                shapes.at(kernels["shapes"]),
                _PARTS.at(kernels["part"]),
                "}}",
            )
            yield from self._flows(kernels.filter(pl.col("launch").is_not_null()))
        yield self._scopes()

    def _copies(self) -> Lines:
        """Return the copies and memory sets of a device, in the lanes of its streams."""
        copies = self.drawing.copies
        return lines(
            copies.height,
            '{"ph":"X","name":',
            distinct(copies["name"], json_lines.quoted),
            self.kernel_places.of(copies),
            Microseconds(copies["start_ns"]),
            '","dur":"',
            Microseconds(copies["end_ns"] - copies["start_ns"]),
            '","cat":"","args":{"bytes":',
            Integer(copies["bytes"]),
            "}}",
        )

    def _marks(self) -> Lines:
        """Return the markers on streams of a device."""
        marks = self.drawing.marks
        return lines(
            marks.height,
            '{"ph":"X","name":',
            distinct(marks["name"], json_lines.quoted),
            self.kernel_places.of(marks),
            Microseconds(marks["start_ns"]),
            '","dur":"',
            Microseconds(marks["end_ns"] - marks["start_ns"]),
            '","cat":"","args":{"domain":',
            distinct(marks["domain"], json_lines.quoted),
            "}}",
        )

    def _flows(self, kernels: pl.DataFrame) -> Iterator[Lines]:
        """Yield the flows from launches to kernels: first all begins, at launching spans, then all ends, at kernels."""
        spans = self.measures.recording.spans.select("process", "thread", "start_ns")
        launches = spans.select(pl.all().gather(kernels["launch"]))
        ends = [("s", launches, self.places.of(launches)), ("f", kernels, self.kernel_places.of(kernels))]
        for kind, end, place in ends:
            yield lines(
                kernels.height,
                f'{{"ph":"{kind}",{_FLOW},"id":',
                Integer(kernels["id"]),
                place,
                Microseconds(end["start_ns"]),
                '"}',
            )

    def _scopes(self) -> Lines:
        return _plain(self.drawing.scopes, "scope", SCOPES, "depth")

    def _communication(self) -> Lines:
        """Return the exchanges with other ranks, one lane per group; msprof-analyze counts exchanges in these lanes."""
        table = self.drawing.communication
        groups = {
            group: f',"pid":{COMMUNICATION},"tid":{tid},"ts":"' for tid, group in enumerate(self.drawing.lanes.groups)
        }
        rows = table["group"].replace_strict(list(groups), range(len(groups)), return_dtype=pl.UInt32)
        return lines(
            table.height,
            '{"ph":"X","name":',
            distinct(table["name"], json_lines.quoted),
            Texts(groups.values()).at(rows),
            Microseconds(table["start_ns"]),
            '","dur":"',
            Microseconds(table["end_ns"] - table["start_ns"]),
            '","cat":"","args":{"bytes":',
            Integer(table["bytes"]),
            "}}",
        )


def _plain(table: pl.DataFrame, name: str, process: int, lane: str, category: str = "") -> Lines:
    """Return spans that have only a name and a lane.

    Args:
        table: the spans, with `start_ns` and `end_ns`.
        name: the column of names.
        process: the pid of the spans in the timeline.
        lane: the column with the tid of each span in the timeline.
        category: the category of all spans.
    """
    return lines(
        table.height,
        '{"ph":"X","name":',
        distinct(table[name], json_lines.quoted),
        f',"pid":{process},"tid":',
        Integer(table[lane]),
        ',"ts":"',
        Microseconds(table["start_ns"]),
        '","dur":"',
        Microseconds(table["end_ns"] - table["start_ns"]),
        f'","cat":"{category}","args":{{}}}}',
    )


class _Places:
    """The pid and tid of events, as the text between the name and the time of an event."""

    def __init__(self, lanes: pl.DataFrame, by: list[str]) -> None:
        """Prepare the texts. `lanes` is a table with `pid`, `tid` and the columns `by`, which identify a lane."""
        self._texts = Texts(f',"pid":{pid},"tid":{tid},"ts":"' for pid, tid in lanes.select("pid", "tid").iter_rows())
        self._known = lanes.select(by)
        self._by = by

    def of(self, table: pl.DataFrame) -> Choice:
        """Return the text with pid and tid for each row of a table."""
        return self._texts.at(COLUMNS.find(table.select(self._by), self._known))


def _argument(name: str, texts: pl.Series) -> Texts:
    """Return each text as a further argument of an event."""
    return Texts(f',"{name}":{json_lines.text_of(text)}' for text in texts)


def _module_of(paths: pl.Series) -> Texts:
    return Texts(f'"module":{json_lines.text_of(path)}' for path in paths)


def _category_text(number: int) -> str:
    return f'","cat":"{"cpu_op" if number in CALLS else ""}","args":{{"category":"{category_name(number)}"'


_NO_TEXTS: Final = Texts([])
_CATEGORIES: Final = Texts(_category_text(number) for number in range(256))
_MARKS: Final = Texts(
    "".join(f',"{name}":true' for bit, name in enumerate(("raised", "abandoned", "unfinished")) if marks >> bit & 1)
    for marks in range(8)
)
_BOUNDS: Final = Texts(f',"bound":"{INFERRED[bound]}"' if bound in INFERRED else "" for bound in sorted(Bound))
_PARTS: Final = Texts(f',"part":"{part.name.lower()}"' if part else "" for part in Part)
