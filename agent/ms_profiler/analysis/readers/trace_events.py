"""Traces in the Chrome format, as chrome://tracing, Perfetto, Kineto and Ascend's tools write and read them.

A list of events, or an object that holds one under `traceEvents`; `ts` and `dur` in microseconds, numbers or text;
possibly packed by gzip. Of a file that breaks off or is damaged in between, every event that stands whole is used.
"""

import json
import os
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.readers.decimals import nanoseconds
from ms_profiler.store.reader import ReadCounts

#: damaged places after which reading goes on
_MOST_DAMAGE: Final = 1000
#: how a file that gzip has packed begins, and how much of one is unpacked at once
_PACKED: Final = b"\x1f\x8b"
_PIECE: Final = 1 << 16
_NEXT: Final = re.compile(r"[\[,]\s*(?=\{)")
_TEXTS: Final = pl.Schema(dict.fromkeys(("name", "category", "pid", "tid", "ts", "dur", "end"), pl.String))
_COUNTERS: Final = pl.Schema(dict.fromkeys(("pid", "name", "ts", "value"), pl.String))
_FLOWS: Final = pl.Schema(
    {"begin": pl.Boolean, "category": pl.String, "id": pl.String, "ts": pl.String, "tid": pl.String}
)


@dataclass
class Events:
    """The events of one trace.

    Attributes:
        spans: `name`, `category`, `pid`, `tid` (texts), `start_ns`, `end_ns`, `args` (row of `args`), by start.
        flows: `begin`, `category`, `id`, `tid`, `time_ns`.
        counters: `pid`, `name`, `time_ns` and the first `value` of each.
        args: of each span; its numbers with a fraction are texts.
        processes: name by pid.
        labels: of processes by pid.
        threads: name by pid and tid.
        head: what stands beside the events in a file that holds an object.
    """

    spans: pl.DataFrame
    flows: pl.DataFrame
    counters: pl.DataFrame
    args: list[dict[str, Any]]
    processes: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    threads: dict[tuple[str, str], str] = field(default_factory=dict)
    head: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def none(cls) -> "Events":
        """Return the events of no trace."""
        return _events(_Taken(), {}, ReadCounts())

    def of_process(self, *names: str) -> pl.DataFrame:
        """Return the spans of the processes that have one of these names."""
        return self.spans.filter(pl.col("pid").is_in([pid for pid, name in self.processes.items() if name in names]))

    def thread_names(self, spans: pl.DataFrame) -> pl.Series:
        """Return the name of the thread of each span, empty where it has none."""
        keys = spans.select("pid", "tid").iter_rows()
        return pl.Series("thread_name", [self.threads.get(key, "") for key in keys], dtype=pl.String)

    def native_threads(self) -> dict[int, str]:
        """Return the names of the threads by their numbers."""
        return {int(tid): name for (_, tid), name in self.threads.items() if tid.isdecimal()}

    def arguments(self, spans: pl.DataFrame, name: str) -> pl.Series:
        """Return an argument of each span as text, null where it has none."""
        values = (self.args[row].get(name) for row in spans["args"])
        return pl.Series(name, [None if value is None else str(value) for value in values], dtype=pl.String)


def read(path: str, counts: ReadCounts) -> Events:
    """Read a trace.

    Args:
        path: of the file.
        counts: is told what cannot be read.

    Raises:
        OSError: the file cannot be opened.
    """
    return read_parts([path], counts)


def read_parts(paths: Sequence[str], counts: ReadCounts) -> Events:
    """Read a trace that lies in several files, what stands beside the events from the last of them.

    Args:
        paths: of the files.
        counts: is told what cannot be read.

    Raises:
        OSError: one of them cannot be opened.
    """
    taken, head = _Taken(), dict[str, Any]()
    for path in paths:
        content, head = _content(path, counts)
        for event in content:
            taken.take(event)
    return _events(taken, head, counts)


def _events(taken: "_Taken", head: dict[str, Any], counts: ReadCounts) -> Events:
    counts.damaged_events += taken.damaged
    shift_ns = _base_ns(head)
    spans = pl.DataFrame(taken.spans, schema=_TEXTS, orient="row").with_row_index("args")
    start = nanoseconds(pl.col("ts")) + shift_ns
    end = pl.coalesce(start + nanoseconds(pl.col("dur")), nanoseconds(pl.col("end")) + shift_ns)
    timed = spans.with_columns(start_ns=start, end_ns=end)
    usable = timed.filter(pl.col("end_ns") >= pl.col("start_ns"))
    counts.damaged_events += timed.height - usable.height
    counters = pl.DataFrame(taken.counters, schema=_COUNTERS, orient="row")
    flows = pl.DataFrame(taken.flows, schema=_FLOWS, orient="row")
    return Events(
        spans=usable.drop("ts", "dur", "end").sort("start_ns", "end_ns", descending=[False, True], maintain_order=True),
        flows=flows.select("begin", "category", "id", "tid", time_ns=nanoseconds(pl.col("ts")) + shift_ns).drop_nulls(),
        counters=counters.select(
            "pid", "name", nanoseconds(pl.col("ts")).alias("time_ns"), pl.col("value").cast(pl.Float64, strict=False)
        ).drop_nulls(),
        args=taken.args,
        processes=taken.processes,
        labels=taken.labels,
        threads=taken.threads,
        head=head,
    )


@dataclass
class _Taken:
    """Takes events one by one."""

    spans: list[tuple[Any, ...]] = field(default_factory=list)
    flows: list[tuple[Any, ...]] = field(default_factory=list)
    counters: list[tuple[Any, ...]] = field(default_factory=list)
    args: list[dict[str, Any]] = field(default_factory=list)
    processes: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    threads: dict[tuple[str, str], str] = field(default_factory=dict)
    damaged: int = 0
    _open: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)

    def take(self, event: Any) -> None:
        """Take one event; those without a meaning for the tables (marks) are passed over."""
        if not isinstance(event, dict) or not isinstance(event.get("ph"), str):
            self.damaged += 1
            return
        kind = event["ph"]
        thread = str(event.get("pid", "")), str(event.get("tid", ""))
        if kind == "X":
            self._span(event, thread, length=event.get("dur", 0))
        elif kind == "B":
            self._open.setdefault(thread, []).append(event)
        elif kind == "E":
            self._close(event, thread)
        elif kind in ("s", "f", "t"):
            self.flows.append(
                (kind == "s", str(event.get("cat", "")), str(event.get("id", "")), _text(event.get("ts")), thread[1])
            )
        elif kind == "C":
            self._count(event, thread[0])
        elif kind == "M":
            self._describe(event, thread)

    def _span(self, event: dict[str, Any], thread: tuple[str, str], length: Any = None, end: Any = None) -> None:
        args = event.get("args")
        self.args.append(args if isinstance(args, dict) else {})
        times = (_text(time) for time in (event.get("ts"), length, end))
        self.spans.append((str(event.get("name", "")), str(event.get("cat", "")), *thread, *times))

    def _count(self, event: dict[str, Any], process: str) -> None:
        args = event.get("args")
        value = next(iter(args.values()), None) if isinstance(args, dict) else None
        self.counters.append((process, str(event.get("name", "")), _text(event.get("ts")), _text(value)))

    def _close(self, event: dict[str, Any], thread: tuple[str, str]) -> None:
        begun = self._open.get(thread)
        if not begun:
            self.damaged += 1
            return
        self._span(begun.pop(), thread, end=event.get("ts"))

    def _describe(self, event: dict[str, Any], thread: tuple[str, str]) -> None:
        args = event.get("args")
        if not isinstance(args, dict):
            return
        if event.get("name") == "process_name":
            self.processes[thread[0]] = str(args.get("name", ""))
        elif event.get("name") == "process_labels":
            self.labels[thread[0]] = str(args.get("labels", ""))
        elif event.get("name") == "thread_name":
            self.threads[thread] = str(args.get("name", ""))


def _content(path: str, counts: ReadCounts) -> tuple[list[Any], dict[str, Any]]:
    """Return the events, and what else the file says."""
    text = _unpacked(path, counts).decode("utf-8", "replace")
    try:
        # fractions stay text: a double would round times
        whole = json.loads(text, parse_float=str)
    except (ValueError, RecursionError):
        return _salvaged(text, os.path.basename(path), counts), {}
    if isinstance(whole, list):
        return whole, {}
    if isinstance(whole, dict) and isinstance(whole.get("traceEvents"), list):
        return whole.pop("traceEvents"), whole
    counts.damaged_files.append((os.path.basename(path), "holds no list of events"))
    return [], {}


def _unpacked(path: str, counts: ReadCounts) -> bytes:
    """Return the content of a file, as far as it can be unpacked where it is packed."""
    with open(path, "rb") as stream:
        content = stream.read()
    if not content.startswith(_PACKED):
        return content
    parts = []
    while content.startswith(_PACKED):
        unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            for start in range(0, len(content), _PIECE):
                parts.append(unpacking.decompress(content[start : start + _PIECE]))
                if unpacking.eof:
                    break
        except zlib.error as error:
            counts.damaged_files.append((os.path.basename(path), f"packed data are damaged ({error})"))
            break
        if not unpacking.eof:
            counts.damaged_files.append((os.path.basename(path), "packed data end early"))
            break
        content = unpacking.unused_data + content[start + _PIECE :]
    return b"".join(parts)


def _salvaged(text: str, name: str, counts: ReadCounts) -> list[Any]:
    """Return the events of a damaged text that stand whole in it."""
    decoder = json.JSONDecoder(parse_float=str)
    found: list[Any] = []
    place, damage = text.find("["), 0
    while place >= 0 and damage < _MOST_DAMAGE and (following := _NEXT.search(text, place)):
        try:
            event, place = decoder.raw_decode(text, following.end())
        except (ValueError, RecursionError):
            damage, place = damage + 1, following.end()
            continue
        # inside of a damaged event there are whole objects, which are none
        if isinstance(event, dict) and "ph" in event:
            found.append(event)
    counts.damaged_files.append((name, f"no whole JSON; {len(found)} events could be read"))
    return found


def _base_ns(head: dict[str, Any]) -> int:
    """Return what Kineto's times count from: since PyTorch 2.4 they do not count from the epoch."""
    try:
        return int(head.get("baseTimeNanoseconds", 0))
    except (TypeError, ValueError):
        return 0


def _text(value: Any) -> str | None:
    return None if value is None or isinstance(value, (bool, dict, list)) else str(value)
