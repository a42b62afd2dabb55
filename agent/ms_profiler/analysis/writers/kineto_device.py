"""A device's work in Kineto's format: kernels by device and stream, their launching calls, and flows between the two.

A kernel and the call that launched it share a `correlation`. Both have the `External id` of the operator around the
call. Source of the form: `output_json.cpp` of github.com/pytorch/kineto.
"""

from collections.abc import Iterator
from typing import Any

import polars as pl

from ms_profiler.analysis.columns import CHUNK, Integer, Microseconds, Part, distinct
from ms_profiler.analysis.metrics import intervals, launched
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers.device_slots import OVERHEAD
from ms_profiler.analysis.writers import json_lines
from ms_profiler.analysis.writers.json_lines import Lines, lines


class Events:
    """The events of ms-profiler's own device tracing.

    Args:
        measures: the measures of the run.
        device: the tables of the device, with `launches`.
        base_ns: time 0 of the events, ns since the epoch.
    """

    def __init__(self, measures: Measures, device: tables.Device, base_ns: int) -> None:
        self._base_ns = base_ns
        self._process = measures.steps.process
        gpu = device.form == tables.Form.CUPTI
        self._kind, self._runtime = ("GPU", "cuda_runtime") if gpu else ("NPU", "privateuse1_runtime")
        assert device.launches is not None
        ran = pl.concat([device.tasks, device.launches, measures.stream.bound], how="horizontal")
        calls = device.calls.filter(pl.col("level") != OVERHEAD)
        copies = self._bound_copies(measures, device)
        kinds = pl.col("name").replace_strict(_WAITS, default=None, return_dtype=pl.String)
        waits = device.waits.with_columns(
            kinds, pl.lit(0, pl.Int64).alias("id"), pl.lit(0, pl.UInt32).alias("device")
        ).drop_nulls("name")
        detailed = measures.stream.detailed
        if measures.chosen is not None or detailed is not None:
            steps = measures.steps.table
            steps = steps if detailed is None else steps.filter(pl.col("number").is_in(detailed))
            ran = ran.filter(intervals.locate(ran.select(_LAUNCHED).to_series(), steps).is_not_null())
            copies = copies.filter(intervals.locate(copies.select(_LAUNCHED).to_series(), steps).is_not_null())
            calls = calls.filter(intervals.locate(calls["start_ns"], steps).is_not_null())
            waits = waits.filter(intervals.locate(waits["start_ns"], steps).is_not_null())
        self.kernels = ran.with_columns(_numbers(measures, ran["launch"]).alias("id")).sort(
            "device", "stream", "start_ns"
        )
        self.copies = copies
        self.waits = waits
        launched_here = pl.concat([part.select(_TIED) for part in (self.kernels, copies)])
        known = launched_here.drop_nulls("launch_ns").unique("launch_ns", keep="first", maintain_order=True)
        self.calls = calls.join(
            known.select(pl.col("launch_ns").alias("start_ns"), "correlation", "id"), on="start_ns", how="left"
        ).with_columns(pl.col("id").fill_null(0))

    def _bound_copies(self, measures: Measures, device: tables.Device) -> pl.DataFrame:
        copies = device.copies.with_columns(exchange=pl.lit(False))
        bound = launched.Launches(measures.recording, self._process, measures.stream.texts.to_list()).bind(copies)
        return copies.with_columns(_numbers(measures, bound["launch"]).alias("id"))

    def metadata(self) -> list[dict[str, Any]]:
        """Return the `M` events: names of devices and streams."""
        events = []
        ran = (self.kernels, self.copies, self.waits)
        for device in pl.concat([part["device"] for part in ran]).unique(maintain_order=True):
            events.append(_named("process_name", device, 0, "name", f"{self._kind} {device}"))
            events.append(_named("process_labels", device, 0, "labels", f"{self._kind} {device}"))
        lanes = pl.concat([part.select("device", _STREAM) for part in ran]).unique(maintain_order=True)
        for device, stream in lanes.iter_rows():
            events.append(_named("thread_name", device, stream, "name", f"stream {stream}"))
        return events

    def all(self) -> Iterator[Lines]:
        """Yield the events in pieces."""
        for rows in self.kernels.iter_slices(CHUNK):
            yield self._ran(rows, _Kind.KERNEL)
        for kind, sets in ((_Kind.COPY, False), (_Kind.SET, True)):
            for rows in self.copies.filter(pl.col("sets") == sets).iter_slices(CHUNK):
                yield self._ran(rows, kind)
        for rows in self.waits.iter_slices(CHUNK):
            yield self._ran(rows, _Kind.WAIT)
        for rows in self.calls.iter_slices(CHUNK):
            yield self._called(rows)
        for part in (self.kernels, self.copies):
            for rows in part.drop_nulls("launch_ns").iter_slices(CHUNK):
                yield from self._flows(rows)

    def _ran(self, rows: pl.DataFrame, kind: str) -> Lines:
        size: list[Part] = []
        if kind in (_Kind.COPY, _Kind.SET):
            size = [',"bytes":', Integer(rows["bytes"].cast(pl.Int64))]
        if kind == _Kind.WAIT:
            size = [',"cuda_sync_kind":', distinct(rows["name"], json_lines.quoted)]
        place: list[Part] = [',"device":', Integer(rows["device"]), ',"context":', Integer(rows["context"])]
        place += [',"stream":', Integer(rows.select(_STREAM).to_series())]
        return self._lasting(rows, kind, self._at_device(rows, "start_ns"), place, size)

    def _called(self, rows: pl.DataFrame) -> Lines:
        known = rows.with_columns(pl.col("correlation").fill_null(0))
        return self._lasting(known, self._runtime, self._at_host(known, "start_ns"), [], [])

    def _lasting(self, rows: pl.DataFrame, kind: str, at: list[Part], place: list[Part], size: list[Part]) -> Lines:
        """Return `X` events, one for each row.

        Args:
            rows: `name`, `start_ns`, `end_ns`, `id` and `correlation` of the events.
            kind: Kineto's category.
            at: the JSON of pid, tid and time.
            place: the arguments before `correlation`.
            size: the arguments after `correlation`.
        """
        return lines(
            rows.height,
            f'{{"ph":"X","cat":"{kind}","name":',
            distinct(rows["name"], json_lines.quoted),
            *at,
            ',"dur":',
            Microseconds(rows["end_ns"] - rows["start_ns"]),
            ',"args":{"External id":',
            Integer(rows["id"]),
            *place,
            ',"correlation":',
            Integer(rows["correlation"]),
            *size,
            "}}",
        )

    def _flows(self, rows: pl.DataFrame) -> Iterator[Lines]:
        """Yield the flows from calls to kernels: first all begins, at the calls, then all ends, at the kernels."""
        # in the row of a call, `thread` is the native id. In the row of a task, it is ms-profiler's own number
        calls = self.calls.select(pl.col("start_ns").alias("launch_ns"), "thread").unique("launch_ns")
        called = rows.drop("thread").join(calls, on="launch_ns", how="inner", maintain_order="left")
        ends = [("s", self._at_host(called, "launch_ns")), ("f", self._at_device(called, "start_ns"))]
        for end, place in ends:
            yield lines(
                called.height,
                f'{{"ph":"{end}","cat":"ac2g","name":"ac2g","bp":"e","id":',
                Integer(called["correlation"]),
                *place,
                "}",
            )

    def _at_device(self, rows: pl.DataFrame, time: str) -> list[Part]:
        place: list[Part] = [',"pid":', Integer(rows["device"]), ',"tid":', Integer(rows.select(_STREAM).to_series())]
        return [*place, ',"ts":', Microseconds(rows[time] - self._base_ns)]

    def _at_host(self, rows: pl.DataFrame, time: str) -> list[Part]:
        place: list[Part] = [f',"pid":{self._process},"tid":', Integer(rows["thread"])]
        return [*place, ',"ts":', Microseconds(rows[time] - self._base_ns)]


class _Kind:
    """Kineto's categories of tasks."""

    KERNEL = "kernel"
    COPY = "gpu_memcpy"
    SET = "gpu_memset"
    WAIT = "cuda_sync"


#: columns that kernels and copies share; `launch_ns` is the start of the launching call
_TIED = ("launch_ns", "correlation", "id")
_LAUNCHED = pl.coalesce("launch_ns", "start_ns")
#: number of a stream on its device: the lower 16 bits of `stream`, because the upper bits hold the device. A call
#: that waits for all streams has -1
_STREAM = (
    pl.when(pl.col("stream") == 2**32 - 1).then(-1).otherwise((pl.col("stream") % 2**16).cast(pl.Int64)).alias("stream")
)
#: name of a wait -> Kineto's name. Waits of a stream for an event are left out. The event is unknown, and tools cannot
#: use such a wait without it
_WAITS = {"event synchronize": "Event Sync", "stream synchronize": "Stream Sync", "context synchronize": "Context Sync"}


def _numbers(measures: Measures, rows: pl.Series) -> pl.Series:
    """Return the `External id` of each span: 1 for the span that starts first, 2 for the next, 0 for no span.

    If the spans do not fit into memory, every id is 0.

    Args:
        measures: the measures of the run.
        rows: the rows of the recording's spans; null for no span.
    """
    if measures.recording.again is not None:
        return pl.repeat(0, len(rows), dtype=pl.Int64, eager=True)
    places = measures.spans["start_ns"].rank("ordinal").cast(pl.Int64)
    return places.gather(measures.drawn.gather(rows)).fill_null(0)


def _named(what: str, pid: int, tid: int, key: str, text: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {key: text}}
