"""The lanes of a timeline: which process and thread of the picture each thread of the run is drawn as."""

from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from ms_profiler.analysis import tables
from ms_profiler.analysis.measures import Measures
from ms_profiler.analysis.metrics import overlap
from ms_profiler.store.format import Category

#: pids and sort indices of the picture; the process of the session takes the first two, each other one the next ten
HOST: Final = 1
OPERATORS: Final = 2
PROCESS_STRIDE: Final = 10
OVERLAP: Final = 100_000
#: order of the overlap lanes, which is their tid
OVERLAP_LANES: Final = (
    overlap.LANE_COMPUTING,
    overlap.LANE_COMMUNICATION,
    overlap.LANE_NOT_OVERLAPPED,
    overlap.LANE_FREE,
)

_FRAMEWORKS: Final = {"mindspore": "MindSpore", "torch": "PyTorch"}


@dataclass(frozen=True)
class Lanes:
    """The lanes in use.

    Attributes:
        threads: `process`, `thread`, `operator` -> `pid`, `tid`, `lane` (name of the process in the picture),
            `thread_name`.
    """

    threads: pl.DataFrame

    @classmethod
    def of(cls, measures: Measures) -> "Lanes":
        """Return the lanes that the spans, instants, counters and steps of a run need.

        Operators get a lane of their own: what a tracer reports for a thread may cross the spans of that thread.

        Args:
            measures: of the run.
        """
        recording = measures.recording
        processes = recording.processes.sort(pl.col("role") != "main", "process").with_row_index("place")
        framework = recording.info.framework.get("name", "")
        title = _FRAMEWORKS.get(framework, framework or "Python")
        main = pl.col("place") == 0
        suffix = pl.when(main).then(pl.lit("")).otherwise(pl.format(" {} {}", "role", "process"))
        drawn = measures.spans.select("process", "thread", operator=pl.col("category") == Category.OP).unique()
        host = recording.threads.select("process", "thread", operator=pl.lit(False))
        threads = (
            pl.concat([host, drawn.filter("operator")])
            .unique()
            .join(recording.threads, on=["process", "thread"])
            .join(processes.select("process", "role", "place"), on="process")
            .select(
                "process",
                "thread",
                "operator",
                (pl.col("place") * PROCESS_STRIDE + pl.when("operator").then(OPERATORS).otherwise(HOST)).alias("pid"),
                pl.when(pl.col("native_tid") > 0).then("native_tid").otherwise("thread").alias("tid"),
                (pl.when("operator").then(pl.lit("CPU OP")).otherwise(pl.lit(title)) + suffix).alias("lane"),
                pl.when(pl.col("thread") == tables.UNKNOWN_THREAD)
                .then(pl.lit("unknown thread"))
                .otherwise("thread_name")
                .alias("thread_name"),
            )
            .sort("pid", "thread")
        )
        return cls(threads)

    def place(self, process: int, thread: int) -> tuple[int, int]:
        """Return pid and tid of a thread's own lane."""
        row = self.threads.filter(pl.col("process") == process, pl.col("thread") == thread, ~pl.col("operator")).select(
            "pid", "tid"
        )
        return row.row(0) if row.height else (HOST, thread)

    def metadata(self) -> list[dict[str, Any]]:
        """Return the `M` events: names, labels and order of processes and threads."""
        events: list[dict[str, Any]] = []
        for pid, lane in self.threads.select("pid", "lane").unique(maintain_order=True).iter_rows():
            events += _process(pid, lane)
        seen: set[tuple[int, int]] = set()
        for row in self.threads.iter_rows(named=True):
            key = (row["pid"], row["tid"])
            if key not in seen:
                seen.add(key)
                name = f"{row['thread_name'] or 'Thread'} {row['tid']}"
                events += _thread(*key, name, row["thread"])
        events += _process(OVERLAP, "Overlap Analysis")
        for tid, name in enumerate(OVERLAP_LANES):
            events += _thread(OVERLAP, tid, name, tid)
        return events


def _process(pid: int, name: str) -> list[dict[str, Any]]:
    return [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}},
        {"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "args": {"labels": "CPU"}},
        {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}},
    ]


def _thread(pid: int, tid: int, name: str, order: int) -> list[dict[str, Any]]:
    return [
        {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}},
        {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": order}},
    ]
