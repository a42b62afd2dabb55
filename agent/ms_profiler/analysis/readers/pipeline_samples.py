"""Read the files of MindSpore's dataset profiler, which samples dataset pipelines.

A window is an interval in which the profiler sampled one pipeline. Each window has a folder with three files:

- `pipeline_profiling_{rank}.json`: the operators, each with the sampled sizes of its output queue.
- `minddata_cpu_utilization_{rank}.json`: the processor time of each operator, in percent of one processor.
- `dataset_iterator_profiling_{rank}.txt`, or `device_queue_profiling_{rank}.txt` for a pipeline that feeds a device:
  four lines for each batch, `TYPE DETAIL BATCH VALUE TIME`, with times in milliseconds. In a line of type 0, VALUE is a
  duration: the wait for the pipeline (DETAIL 0), the push into the queue of the device (1), or the sum of both (2). In
  a line of type 1, VALUE is the size of a queue.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.model import tables
from ms_profiler.store import layout
from ms_profiler.store.format import Category
from ms_profiler.store.names import DATASET_WINDOW, DATASET_WINDOW_END

_OPERATORS: Final = "pipeline_profiling_"
_PROCESSORS: Final = "minddata_cpu_utilization_"
_BATCHES: Final = ("device_queue_profiling_", "dataset_iterator_profiling_")


@dataclass
class Operator:
    """One operator of a pipeline, with its samples.

    Attributes:
        op_id: number of the operator in the pipeline; operator 0 yields the batches.
        kind: MindSpore's name of the operator's type, such as "MapOp".
        workers: number of the operator's threads or processes; None if unknown.
        children: the numbers of the operators that feed this operator.
        length: capacity of the output queue; None without a queue.
        sizes: size of the output queue in each sample.
        percents: processor time in each sample, in percent of one processor. The first sample of a window is left out:
            MindSpore writes 0 there, because it has not measured anything yet.
    """

    op_id: int
    kind: str
    workers: int | None
    children: tuple[int, ...]
    length: int | None
    sizes: list[int] = field(default_factory=list)
    percents: list[float] = field(default_factory=list)


@dataclass
class Window:
    """The samples of one window.

    Attributes:
        process: pid.
        pipeline: the number that the process gave to the dataset.
        start_ns: begin of the window, ns since the epoch.
        end_ns: end of the window; if the process was killed before, the time of its last record.
        ended: whether the process marked the end of the window.
        interval_ms: time from one sample to the next; None if the file cannot be read.
        operators: the operators, by number; empty if the file cannot be read.
        waits_ms: wait for each batch, without the first batch of an iterator.
        pushes_ms: time to push each batch into the queue of a device; 0 without such a queue.
        periods_ms: time from each batch to the next one. If the pipeline feeds a device: wait + push of each batch.
    """

    process: int
    pipeline: int
    start_ns: int
    end_ns: int
    ended: bool
    interval_ms: int | None = None
    operators: list[Operator] = field(default_factory=list)
    waits_ms: list[int] = field(default_factory=list)
    pushes_ms: list[int] = field(default_factory=list)
    periods_ms: list[int] = field(default_factory=list)


def read(recording: tables.Recording) -> list[Window]:
    """Return the windows of every process, sorted by process and start.

    Args:
        recording: the recording with its instants and processes; its counts receive the number of unreadable files.
    """
    last = dict(recording.processes.select("process", "last_ns").iter_rows())
    ends = {(process, index): time for process, _, index, time in _marks(recording, DATASET_WINDOW_END)}
    windows = []
    for process, pipeline, index, start in _marks(recording, DATASET_WINDOW):
        end = ends.get((process, index))
        window = Window(process, pipeline, start, last[process] if end is None else end, end is not None)
        folder = layout.pipeline_dir(layout.process_dir(recording.directory, process), index)
        _Reader(recording, window, folder).fill()
        windows.append(window)
    return sorted(windows, key=lambda window: (window.process, window.start_ns))


def _marks(recording: tables.Recording, name: str) -> Iterator[tuple[int, int, int, int]]:
    """Yield process, pipeline, number of the window and time (ns) of each instant that has this name."""
    rows = (recording.names == name).arg_true()
    marked = recording.instants.filter(
        pl.col("category") == Category.PROFILER, pl.col("name").is_in(rows.cast(pl.UInt32).implode())
    )
    for process, arg, time in marked.select("process", "arg", "time_ns").iter_rows():
        yield process, arg >> 32, arg & 0xFFFFFFFF, time


class _Reader:
    """Reads the files of one folder into its window."""

    def __init__(self, recording: tables.Recording, window: Window, folder: str) -> None:
        self.counts, self.window, self.folder = recording.counts, window, folder
        try:
            self.names = sorted(os.listdir(folder))
        except OSError:
            self.names = []

    def fill(self) -> None:
        """Read the files of the folder. If a file is unreadable, note its name, and leave its attributes empty."""
        self._parse(_OPERATORS, self._fill_operators)
        if self.window.operators:
            self._parse(_PROCESSORS, self._fill_processors)
            device = any(name.startswith(_BATCHES[0]) for name in self.names)
            self._parse(_BATCHES[0 if device else 1], self._fill_batches)

    def _parse(self, prefix: str, take: Any) -> None:
        for name in [name for name in self.names if name.startswith(prefix)][:1]:
            try:
                with open(os.path.join(self.folder, name), encoding="utf-8") as stream:
                    take(stream.read())
            except OSError as error:
                self._damaged(name, error.strerror or "cannot be read")
            except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
                self._damaged(name, "its form is not MindSpore's")

    def _damaged(self, name: str, reason: str) -> None:
        parts = (f"process_{self.window.process}", layout.PIPELINES, os.path.basename(self.folder), name)
        self.counts.damaged_files.append((os.path.join(*parts), reason))

    def _fill_operators(self, text: str) -> None:
        content = json.loads(text)
        operators = []
        for item in content["op_info"]:
            queue = (item.get("metrics") or {}).get("output_queue")
            workers = item.get("num_workers")
            operators.append(
                Operator(
                    op_id=int(item["op_id"]),
                    kind=str(item["op_type"]),
                    workers=None if workers is None else int(workers),
                    children=tuple(int(child) for child in item.get("children") or ()),
                    length=int(queue["length"]) if queue else None,
                    sizes=[int(size) for size in queue.get("size") or ()] if queue else [],
                )
            )
        operators.sort(key=lambda operator: operator.op_id)
        known = [operator.op_id for operator in operators]
        if known != list(range(len(known))) or any(
            not operator.op_id < child < len(known) for operator in operators for child in operator.children
        ):
            raise ValueError("operators are numbered from their root on")
        self.window.interval_ms = int(content["sampling_interval"])
        self.window.operators = operators

    def _fill_processors(self, text: str) -> None:
        read = {}
        for item in json.loads(text)["op_info"]:
            metrics = item["metrics"]
            pairs = zip(metrics["sys_utilization"], metrics["user_utilization"], strict=True)
            read[int(item["op_id"])] = [float(system) + float(user) for system, user in pairs][1:]
        for operator in self.window.operators:
            operator.percents = read.get(operator.op_id, [])

    def _fill_batches(self, text: str) -> None:
        durations: tuple[list[int], list[int], list[int]] = ([], [], [])
        times: list[int] = []
        for line in text.splitlines():
            kind, detail, batch, value, time = map(int, line.split()[:5])
            if batch < 2:  # the first batch is left out, because it also waits for the pipeline to start
                times = [time] if kind == 1 else times
            elif kind == 1:
                times.append(time)
            else:
                durations[detail].append(value)
        device = any(name.startswith(_BATCHES[0]) for name in self.names)
        waits, pushes, whole = durations
        periods = whole if device else [after - before for before, after in pairwise(times)]
        self.window.waits_ms, self.window.pushes_ms, self.window.periods_ms = waits, pushes, periods
