"""The lanes of a timeline, which are its rows: each thread of the run gets a pid and a tid in the timeline."""

from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.metrics import intervals, overlap
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category

#: pids in the timeline. The main process of the job has the pids 0 to 9, the next process 10 to 19, and so on
HOST: Final = 1
KERNELS: Final = 2
SCOPES: Final = 3
COMMUNICATION: Final = 4
PROCESS_STRIDE: Final = 10
OVERLAP: Final = 100_000
WHOLE_RUN: Final = 100_001
MODULES: Final = 100_002
#: pid of the Python stacks of all processes
STACKS: Final = 100_003
#: tid of the lane of the steps, in the process `HOST`; no thread has this id. The steps need their own lane, because a
#: step may begin or end inside a thread's span, and viewers cannot draw events of one lane that cross
STEPS: Final = 0
#: sort index of the whole run, the modules and the scopes; the sort index of other processes is their pid
WHOLE_RUN_ORDER: Final = 0
MODULES_ORDER: Final = 0
SCOPES_ORDER: Final = 12
#: the lanes of the overlap analysis; the index of a lane is its tid
OVERLAP_LANES: Final = (
    overlap.LANE_COMPUTING,
    overlap.LANE_COMMUNICATION,
    overlap.LANE_NOT_OVERLAPPED,
    overlap.LANE_FREE,
)

#: categories of calls that launch kernels
CALLS: Final = (Category.OP, Category.GRAPH)
#: tid of a thread of the run: its native id if known, otherwise ms-profiler's own number
NATIVE_TID: Final = pl.when(pl.col("native_tid") > 0).then("native_tid").otherwise("thread")
#: titles of the processes that show tasks of Ascend's devices (with the label NPU) and of GPUs (with the label GPU)
_HARDWARE: Final = "Ascend Hardware"
_GPU: Final = "GPU"
_NPU: Final = "NPU"
#: title and label of the process that shows tasks of a CPU
_OPERATORS: Final = "CPU OP"
_PROCESSOR: Final = "CPU"
_FRAMEWORKS: Final = {"mindspore": "MindSpore", "torch": "PyTorch"}


@dataclass(frozen=True)
class Lanes:
    """The lanes that the timeline of a run has. A lane is a row of the timeline.

    Attributes:
        threads: `process`, `thread` -> `pid`, `tid`, `lane` (name of the process in the timeline), `thread_name`.
        kernels: `process`, `lane` -> `pid`, `tid`, `title` (name of the process in the timeline).
        depths: the number of lanes for the scopes of kernels; each nesting depth has one.
        modules: the number of lanes for modules; one of them shows the passes (forward, backward).
        groups: the groups of ranks that exchanged something; the index of a group is its tid.
        whole: the processes that the lanes of the whole run show; the index of a process is its tid.
        stacks: the label of each thread whose Python stacks are known; the index of a label is its tid.
    """

    threads: pl.DataFrame
    kernels: pl.DataFrame
    depths: int
    modules: int
    groups: list[str]
    whole: list[int]
    stacks: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, measures: Measures, depths: int, modules: int, stacks: list[str], groups: list[str]) -> "Lanes":
        """Return the lanes that the spans, kernels, instants, counters and steps of a run need.

        Args:
            measures: the measures of the run.
            depths: the number of lanes for the scopes of kernels.
            modules: the number of lanes for modules.
            stacks: labels of threads whose Python stacks are drawn.
            groups: the groups of ranks that exchanged something.
        """
        recording = measures.recording
        processes = recording.processes.sort(pl.col("role") != "main", "process").with_row_index("place")
        framework = recording.info.framework.get("name", "")
        title = _FRAMEWORKS.get(framework, framework or "Python")
        main = pl.col("place") == 0
        suffix = pl.when(main).then(pl.lit("")).otherwise(pl.format(" {} {}", "role", "process"))
        places = processes.select("process", pl.col("place") * PROCESS_STRIDE, suffix.alias("suffix"))
        threads = (
            recording.threads.join(places, on="process")
            .select(
                "process",
                "thread",
                (pl.col("place") + HOST).alias("pid"),
                NATIVE_TID.alias("tid"),
                (pl.lit(title) + pl.col("suffix")).alias("lane"),
                pl.when(pl.col("thread") == tables.UNKNOWN_THREAD)
                .then(pl.lit("unknown thread"))
                .otherwise("thread_name")
                .alias("thread_name"),
            )
            .sort("pid", "thread")
        )
        kernels = (
            pl.concat(
                table.select("process", "lane") for table in (measures.stream.table, copies(measures), marks(measures))
            )
            .unique()
            .join(places, on="process")
            .select(
                "process",
                "lane",
                (pl.col("place") + KERNELS).alias("pid"),
                pl.col("lane").alias("tid"),
                (pl.lit(_title(recording)) + pl.col("suffix")).alias("title"),
            )
            .sort("pid", "tid")
        )
        whole = measures.stretches["process"].unique(maintain_order=True).to_list()
        return cls(threads, kernels, depths, modules, groups, whole, stacks)

    @property
    def device(self) -> int:
        """Return the timeline's pid for the device that the first process uses; 0 without a device."""
        return int(self.kernels["pid"][0]) if self.kernels.height else 0

    def metadata(self) -> list[dict[str, Any]]:
        """Return the `M` events: names, labels and order of processes and threads."""
        events: list[dict[str, Any]] = []
        for pid, lane in self.threads.select("pid", "lane").unique(maintain_order=True).iter_rows():
            events += _process(pid, lane)
        events += _thread(HOST, STEPS, "Steps", 0)
        seen: set[tuple[int, int]] = set()
        for row in self.threads.iter_rows(named=True):
            key = (row["pid"], row["tid"])
            if key not in seen:
                seen.add(key)
                name = f"{row['thread_name'] or 'Thread'} {row['tid']}"
                events += _thread(*key, name, row["thread"] + 1)
        for pid, title in self.kernels.select("pid", "title").unique(maintain_order=True).iter_rows():
            events += _process(pid, title, label=_label(title) or "CPU")
        for pid, tid, title in self.kernels.select("pid", "tid", "title").iter_rows():
            lane = "Stream" if _label(title) else "Thread"
            events += _thread(pid, tid, f"{lane} {tid}", tid)
        if self.depths:
            events += _process(SCOPES, "Scope Layer", SCOPES_ORDER)
        for depth in range(self.depths):
            events += _thread(SCOPES, depth, f"Thread {depth}", depth)
        if self.groups:
            events += _process(COMMUNICATION, "Communication")
        for tid, group in enumerate(self.groups):
            events += _thread(COMMUNICATION, tid, f"Group {group} Communication", tid)
        events += overlap_metadata()
        if self.whole:
            events += _process(WHOLE_RUN, "Whole run", WHOLE_RUN_ORDER)
        for tid, process in enumerate(self.whole):
            events += _thread(WHOLE_RUN, tid, f"Process {process}", tid)
        if self.modules:
            events += _process(MODULES, "Modules", MODULES_ORDER)
        for depth in range(self.modules):
            events += _thread(MODULES, depth, f"Modules of depth {depth}" if depth else "Passes", depth)
        if self.stacks:
            events += _process(STACKS, "Python")
        for tid, label in enumerate(self.stacks):
            events += _thread(STACKS, tid, label, tid)
        return events


def copies(measures: Measures) -> pl.DataFrame:
    """Return the copies and memory sets of a device in the steps: `process`, `lane`, `name`, `bytes` and times.

    Args:
        measures: the measures of the run.
    """
    device = measures.recording.device
    table = pl.DataFrame(schema=tables.COPIES) if device is None else device.copies
    return _on_streams(measures, table, pl.col("bytes").cast(pl.Int64))


def marks(measures: Measures) -> pl.DataFrame:
    """Return the markers on streams of a device in the steps: `process`, `lane`, `name`, `domain` and times.

    Args:
        measures: the measures of the run.
    """
    device = measures.recording.device
    table = pl.DataFrame(schema=tables.MARKS) if device is None else device.marks
    return _on_streams(measures, table, pl.col("domain"))


def _on_streams(measures: Measures, table: pl.DataFrame, column: pl.Expr) -> pl.DataFrame:
    """Return the rows that began in the chosen steps: `process`, `lane`, `name`, `column` and times."""
    if measures.chosen is not None:
        table = table.filter(intervals.locate(table["start_ns"], measures.steps.table).is_not_null())
    return table.select(
        pl.lit(measures.steps.process, pl.UInt32).alias("process"),
        pl.col("stream").alias("lane"),
        "name",
        column,
        "start_ns",
        "end_ns",
    )


def _title(recording: tables.Recording) -> str:
    device = recording.device
    kind = recording.info.framework.get("device", "") if device is not None else _PROCESSOR
    if device is None or (device.form == tables.Form.KINETO and kind in ("", _PROCESSOR)):
        return _OPERATORS
    if device.form == tables.Form.KINETO:
        return kind
    return _GPU if device.form == tables.Form.CUPTI else _HARDWARE


def _label(title: str) -> str:
    """Return the label of a process of the timeline that shows a device, such as "GPU"; empty for other processes.

    Args:
        title: title of the process: "GPU" for the main process, "GPU worker 4711" for another one.
    """
    if title.startswith(_OPERATORS):
        return ""
    return _NPU if title.startswith(_HARDWARE) else title.split(" ")[0]


def overlap_metadata() -> list[dict[str, Any]]:
    """Return the `M` events with the names and order of the lanes of the overlap analysis."""
    events = _process(OVERLAP, "Overlap Analysis")
    for tid, name in enumerate(OVERLAP_LANES):
        events += _thread(OVERLAP, tid, name, tid)
    return events


def _process(pid: int, name: str, order: int | None = None, label: str = "CPU") -> list[dict[str, Any]]:
    return [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}},
        {"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "args": {"labels": label}},
        {
            "ph": "M",
            "name": "process_sort_index",
            "pid": pid,
            "tid": 0,
            "args": {"sort_index": pid if order is None else order},
        },
    ]


def _thread(pid: int, tid: int, name: str, order: int) -> list[dict[str, Any]]:
    return [
        {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}},
        {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": order}},
    ]
