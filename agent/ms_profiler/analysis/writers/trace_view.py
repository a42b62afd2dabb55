"""trace_view.json: the timeline that MindStudio Insight, Perfetto, chrome://tracing and msprof-analyze open.

A bare JSON list of events as in MindSpore's public profiler documents: `X` (duration), `M` (metadata), `C` (counter),
`s` and `f` (ends of a flow). `ts` and `dur` are strings in microseconds since the epoch with three decimals, cut from
integer nanoseconds. An instant is an `X` without duration: MindStudio Insight does not read the kind meant for it. Only
what the host calls of operators and compiled graphs, and the steps, carry the category `cpu_op`, among which
msprof-analyze looks for calls and for a step by its number. The kernels that are launched are in the lane `CPU OP`,
with a flow where the launch is known.
"""

import itertools
import json
import os
from collections.abc import Iterator
from typing import BinaryIO, Final

import polars as pl

from ms_profiler.analysis.measures import Measures
from ms_profiler.analysis.metrics import host_operators, intervals, overlap, scopes
from ms_profiler.analysis.metrics.binding import Bound
from ms_profiler.analysis.metrics.kernels import HOST_CPU
from ms_profiler.analysis.metrics.scopes import Part
from ms_profiler.analysis.writers import json_lines
from ms_profiler.analysis.writers.communication import by_call
from ms_profiler.analysis.writers.lanes import CALLS, COMMUNICATION, HOST, OVERLAP, OVERLAP_LANES, SCOPES, STEPS, Lanes
from ms_profiler.store import layout
from ms_profiler.store.format import Category, Flag

#: rows built at once
_CHUNK: Final = 100_000
_THREAD: Final = ["process", "thread"]
_LANE: Final = ["process", "lane"]
#: name and category of a flow inside the framework
_FLOW: Final = '"name":"mindspore_to_self","cat":"async_mindspore","bp":"e"'


def path(measures: Measures) -> str:
    """Return where it goes."""
    return os.path.join(layout.OUTPUT, layout.TRACE_VIEW)


def applies(measures: Measures) -> bool:
    """Tell that there always is a timeline."""
    return True


def write(measures: Measures, stream: BinaryIO, *, pretty: bool) -> None:
    """Write the timeline, a line an event."""
    rows = _Rows(measures)
    first, *others = [json.dumps(event, ensure_ascii=False, separators=(",", ":")) for event in rows.lanes.metadata()]
    stream.write(b"[\n")
    json_lines.write(itertools.chain([pl.Series(others)], rows.all()), first, stream, pretty=pretty)
    stream.write(b"]\n")


class _Rows:
    """The events of a run as JSON texts."""

    def __init__(self, measures: Measures) -> None:
        self.measures = measures
        main = measures.stream.table.filter(pl.col("process") == measures.steps.process)
        self.scopes = scopes.runs(main, measures.stream.names)
        self.lanes = Lanes.of(measures, self.scopes["depth"].n_unique())
        self.names = pl.Series([json.dumps(name, ensure_ascii=False) for name in measures.recording.names])
        self.places = self.lanes.threads.select(
            *_THREAD, pl.format(',"pid":{},"tid":{},"ts":"', "pid", "tid").alias("place")
        )
        self.kernel_places = self.lanes.kernels.select(
            *_LANE, pl.format(',"pid":{},"tid":{},"ts":"', "pid", "tid").alias("place")
        )
        self.steps = measures.steps.recorded
        # behind the last step stands the text for no step
        self.step_texts = pl.Series([f',"step":{number}' for number in self.steps["number"]] + [""])

    def all(self) -> Iterator[pl.Series]:
        """Yield all events in pieces."""
        yield self._steps()
        yield self._overlap()
        for spans in self.measures.spans.iter_slices(_CHUNK):
            yield self._spans(spans)
        recording = self.measures.recording
        yield self._spans(
            recording.instants.with_columns(
                start_ns="time_ns", end_ns="time_ns", flags=pl.lit(0, pl.UInt8), unfinished=pl.lit(False)
            )
        )
        yield self._ties()
        yield self._counters(recording.counters)
        yield from self._kernels()
        yield self._communication()

    def _spans(self, spans: pl.DataFrame) -> pl.Series:
        placed = spans.join(self.places, on=_THREAD, how="left", maintain_order="left")
        # in the order of the bits of Flag, and one more for what was still running
        marks = placed["flags"] % Flag.UNRECORDED + placed["unfinished"].cast(pl.UInt8) * Flag.UNRECORDED
        return json_lines.joined(
            pl.lit('{"ph":"X","name":'),
            self.names.gather(placed["name"]),
            placed["place"],
            *json_lines.microseconds(placed["start_ns"]),
            pl.lit('","dur":"'),
            *json_lines.microseconds(placed["end_ns"] - placed["start_ns"]),
            _CATEGORIES.gather(placed["category"]),
            self._step_of(placed["start_ns"]),
            _MARKS.gather(marks),
            pl.lit("}}"),
        )

    def _ties(self) -> pl.Series:
        """Return both ends of the flows from operators to their gradients, where autograd's numbers are known."""
        flows = host_operators.flows(self.measures.host_operators)
        placed = flows.join(self.places, on=_THREAD, how="left", maintain_order="left")
        return json_lines.joined(
            pl.lit('{"ph":"'),
            placed["end"],
            pl.lit('","name":"fwdbwd","cat":"fwdbwd","bp":"e","id":'),
            placed["id"].cast(pl.String),
            placed["place"],
            *json_lines.microseconds(placed["start_ns"]),
            pl.lit('"}'),
        )

    def _step_of(self, times: pl.Series) -> pl.Series:
        return self.step_texts.gather(intervals.locate(times, self.steps).fill_null(self.steps.height))

    def _steps(self) -> pl.Series:
        table = self.measures.steps.recorded
        # msprof-analyze takes a step that begins where the last one ends for a part of it: a nanosecond is between them
        touches = table["end_ns"] == table["start_ns"].shift(-1)
        lengths = table["duration_ns"] - touches.fill_null(False).cast(pl.Int64)
        return json_lines.joined(
            pl.lit('{"ph":"X","name":"ProfilerStep#'),
            table["number"].cast(pl.String),
            pl.lit(f'","pid":{HOST},"tid":{STEPS},"ts":"'),
            *json_lines.microseconds(table["start_ns"]),
            pl.lit('","dur":"'),
            *json_lines.microseconds(lengths.clip(lower_bound=0)),
            pl.lit('","cat":"cpu_op","args":{}}'),
        )

    def _overlap(self) -> pl.Series:
        table = overlap.lanes(self.measures.states)
        tids = {name: f'","pid":{OVERLAP},"tid":{tid},"ts":"' for tid, name in enumerate(OVERLAP_LANES)}
        return json_lines.joined(
            pl.lit('{"ph":"X","name":"'),
            table["lane"],
            table["lane"].replace_strict(tids, return_dtype=pl.String),
            *json_lines.microseconds(table["start_ns"]),
            pl.lit('","dur":"'),
            *json_lines.microseconds(table["end_ns"] - table["start_ns"]),
            pl.lit('","cat":"","args":{}}'),
        )

    def _counters(self, counters: pl.DataFrame) -> pl.Series:
        placed = counters.join(self.places, on=_THREAD, how="left", maintain_order="left")
        return json_lines.joined(
            pl.lit('{"ph":"C","name":'),
            self.names.gather(placed["name"]),
            placed["place"],
            *json_lines.microseconds(placed["time_ns"]),
            pl.lit('","args":{"value":'),
            pl.Series([json.dumps(value) for value in placed["value"]], dtype=pl.String),
            pl.lit("}}"),
        )

    def _kernels(self) -> Iterator[pl.Series]:
        """Yield the kernels, the flows to them, and their scopes."""
        stream = self.measures.stream
        if stream.table.is_empty():
            return
        names = json_lines.quoted(stream.names["full_name"])
        types = json_lines.quoted(stream.names["type"])
        texts = json_lines.quoted(stream.texts)
        cores = stream.names["core"].replace({HOST_CPU: "HostCpuOps"})
        for kernels in stream.table.with_row_index("id").iter_slices(_CHUNK):
            placed = kernels.join(self.kernel_places, on=_LANE, how="left", maintain_order="left")
            yield json_lines.joined(
                pl.lit('{"ph":"X","name":'),
                names.gather(placed["kernel"]),
                placed["place"],
                *json_lines.microseconds(placed["start_ns"]),
                pl.lit('","dur":"'),
                *json_lines.microseconds(placed["duration_ns"]),
                pl.lit('","cat":"","args":{"type":"'),
                cores.gather(placed["kernel"]),
                pl.lit('","op":'),
                types.gather(placed["kernel"]),
                self._step_of(placed["start_ns"]),
                _argument("module", texts.gather(placed["module"])),
                _BOUNDS.gather(placed["bound"]),
                _argument("shapes", texts.gather(placed["shapes"])),
                _PARTS.gather(placed["part"]),
                pl.lit("}}"),
            )
            yield self._flows(placed.filter(pl.col("launch").is_not_null()))
        yield self._scopes()

    def _flows(self, kernels: pl.DataFrame) -> pl.Series:
        """Return both ends of the flows: at the start of the operator's span, and at that of the kernel."""
        spans = self.measures.recording.spans.select("process", "thread", "start_ns")
        launches = spans.select(pl.all().gather(kernels["launch"])).join(
            self.places, on=_THREAD, how="left", maintain_order="left"
        )
        ends = [("s", launches), ("f", kernels)]
        return pl.concat(
            json_lines.joined(
                pl.lit(f'{{"ph":"{kind}",{_FLOW},"id":'),
                kernels["id"].cast(pl.String),
                end["place"],
                *json_lines.microseconds(end["start_ns"]),
                pl.lit('"}'),
            )
            for kind, end in ends
        )

    def _scopes(self) -> pl.Series:
        table = self.scopes
        return json_lines.joined(
            pl.lit('{"ph":"X","name":'),
            json_lines.quoted(table["scope"]),
            pl.lit(f',"pid":{SCOPES},"tid":'),
            table["depth"].cast(pl.String),
            pl.lit(',"ts":"'),
            *json_lines.microseconds(table["start_ns"]),
            pl.lit('","dur":"'),
            *json_lines.microseconds(table["end_ns"] - table["start_ns"]),
            pl.lit('","cat":"","args":{}}'),
        )

    def _communication(self) -> pl.Series:
        """Return the exchanges with other ranks, a lane a group, from which msprof-analyze counts them."""
        table = self.measures.calls
        names = table["operation"].to_list()
        if self.measures.recording.device is None:
            names = [call["name"].rpartition("@")[0] for call in by_call(self.measures)]
        groups = {group: f',"pid":{COMMUNICATION},"tid":{tid},"ts":"' for tid, group in enumerate(self.lanes.groups)}
        return json_lines.joined(
            pl.lit('{"ph":"X","name":'),
            json_lines.quoted(pl.Series(names, dtype=pl.String)),
            table["group"].replace_strict(groups, return_dtype=pl.String),
            *json_lines.microseconds(table["start_ns"]),
            pl.lit('","dur":"'),
            *json_lines.microseconds(table["end_ns"] - table["start_ns"]),
            pl.lit('","cat":"","args":{"bytes":'),
            table["bytes"].cast(pl.String),
            pl.lit("}}"),
        )


def _argument(name: str, texts: pl.Series) -> pl.Series:
    """Return texts as a further argument of an event, and nothing where there is none."""
    return pl.select(pl.format(f',"{name}":{{}}', texts)).to_series().fill_null("")


def _category_text(number: int) -> str:
    known = number in Category.__members__.values()
    name = Category(number).name.lower() if known else Category.OTHER.name.lower()
    return f'","cat":"{"cpu_op" if number in CALLS else ""}","args":{{"category":"{name}"'


_CATEGORIES: Final = pl.Series([_category_text(number) for number in range(256)])
_MARKS: Final = pl.Series(
    [
        "".join(f',"{name}":true' for bit, name in enumerate(("raised", "abandoned", "unfinished")) if marks >> bit & 1)
        for marks in range(8)
    ]
)
_BOUNDS: Final = pl.Series([',"bound":"by order"' if bound == Bound.ORDER else "" for bound in sorted(Bound)])
_PARTS: Final = pl.Series([f',"part":"{part.name.lower()}"' if part else "" for part in Part])
