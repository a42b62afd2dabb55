"""Read traces in the Chrome format, the format of chrome://tracing, Perfetto, Kineto and Ascend's tools.

Such a trace is a list of events, or an object with such a list under `traceEvents`. The file may be packed by gzip.
`ts` and `dur` are microseconds, as numbers or text. If a file is truncated or damaged, every complete event is read.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.readers.decimals import nanoseconds
from ms_profiler.analysis.readers.trace_text import TEXT, TraceText
from ms_profiler.store.reader import ReadCounts

#: number of rows that are converted to columns at once
_MANY: Final = 1 << 16
#: columns of a span while it is collected: names are still numbers of texts, and times are still texts
_SPANS: Final = pl.Schema(
    {
        **dict.fromkeys(("name", "category", "pid", "tid"), pl.UInt32),
        **dict.fromkeys(("ts", "dur", "end"), pl.String),
        "row": pl.UInt32,
    }
)
_COUNTERS: Final = pl.Schema(dict.fromkeys(("pid", "name", "ts", "value"), pl.String))
#: name of PyTorch's events of allocations and releases, and their arguments
_MEMORY: Final = "[memory]"
_HELD: Final = ("Device Type", "Device Id", "Total Allocated", "Total Reserved", "Bytes")
_ALLOCATED: Final = pl.Schema(dict.fromkeys(("ts", *_HELD), pl.String))
#: largest number that Polars converts to text
_LARGEST: Final = (1 << 63) - 1
#: values of `ph` for the events of a flow: start, end, step
_FLOW: Final = ("s", "f", "t")
_FLOWS: Final = pl.Schema(
    {"begin": pl.Boolean, "category": pl.String, "id": pl.String, "ts": pl.String, "tid": pl.String}
)


@dataclass
class Events:
    """The events of one trace.

    Attributes:
        spans: `name`, `category`, `pid`, `tid` (texts), `start_ns`, `end_ns`, `row`, `unfinished`, sorted by start. If
            the trace lacks the end of a span, the span is unfinished and ends with the trace.
        flows: `begin`, `category`, `id`, `tid`, `time_ns`. A row is one event of a flow (start, step or end); `begin`
            is true for a start.
        counters: `pid`, `name`, `time_ns` and the first `value` of each counter event.
        held: `time_ns` and the values of PyTorch's allocators at each allocation and release (`_HELD`), Int64.
        found: the requested arguments of spans, as texts, with the `row` of the span. Spans without such an argument
            have no row.
        processes: pid -> name of the process.
        labels: pid -> labels of the process.
        threads: pid and tid -> name of the thread.
        head: all keys of the file's object except `traceEvents`; empty if the file is a plain list of events.
    """

    spans: pl.DataFrame
    flows: pl.DataFrame
    counters: pl.DataFrame
    held: pl.DataFrame
    found: pl.DataFrame
    processes: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    threads: dict[tuple[str, str], str] = field(default_factory=dict)
    head: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def none(cls, arguments: tuple[str, ...]) -> "Events":
        """Return an empty trace.

        Args:
            arguments: names of the arguments of spans, as for `read`.
        """
        return _Taken(arguments).events({}, ReadCounts())

    def of_process(self, *names: str) -> pl.DataFrame:
        """Return the spans of the processes that have one of these names."""
        return self.spans.filter(pl.col("pid").is_in([pid for pid, name in self.processes.items() if name in names]))

    def thread_names(self, spans: pl.DataFrame) -> pl.Series:
        """Return the name of each span's thread, empty for a thread without a name."""
        keys = spans.select("pid", "tid").iter_rows()
        return pl.Series("thread_name", [self.threads.get(key, "") for key in keys], dtype=pl.String)

    def native_threads(self) -> dict[int, str]:
        """Return tid -> name of the thread, for each tid that is a number."""
        return {int(tid): name for (_, tid), name in self.threads.items() if tid.isdecimal()}

    def arguments(self, spans: pl.DataFrame, name: str) -> pl.Series:
        """Return an argument of each span as text, null for a span that lacks it."""
        return self.found_of(spans, name)[name]

    def found_of(self, spans: pl.DataFrame, *names: str) -> pl.DataFrame:
        """Return some arguments of each span as texts, null for a span that lacks the argument."""
        found = self.found.select("row", *names)
        return spans.select("row").join(found, on="row", how="left", maintain_order="left").select(names)


def read(path: str, arguments: tuple[str, ...], counts: ReadCounts) -> Events:
    """Read a trace.

    Args:
        path: the path of the file.
        arguments: names of the arguments of spans to read; other arguments are dropped.
        counts: receives the number of unreadable parts.

    Raises:
        OSError: the file cannot be opened.
    """
    return read_parts([path], arguments, counts)


def read_parts(paths: Sequence[str], arguments: tuple[str, ...], counts: ReadCounts) -> Events:
    """Read a trace from several files. `head` comes from the last file.

    Args:
        paths: the paths of the files.
        arguments: names of the arguments of spans, as for `read`.
        counts: receives the number of unreadable parts.

    Raises:
        OSError: one of the files cannot be opened.
    """
    taken, head = _Taken(arguments), dict[str, Any]()
    with _uncollected():
        for path in paths:
            text = TraceText(path, counts)
            for events in text.lists():
                taken.take_all(events)
            head = text.head
    return taken.events(head, counts)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Pause garbage collection. JSON has no cycles, and the search for cycles took a fifth of the reading time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class _Rows:
    """Collects rows, and converts them to columns in batches: rows as Python objects would take too much memory.

    Args:
        schema: the schema of the rows; a column of text accepts any value of JSON.
        convert: a function that reduces each table of rows to the needed columns.
        text: a function that returns the text of a value.
    """

    def __init__(
        self,
        schema: pl.Schema,
        convert: Callable[[pl.DataFrame], pl.DataFrame],
        text: Callable[[Any], str | None],
    ) -> None:
        self._schema = schema
        self._convert = convert
        self._text = text
        self._columns: list[list[Any]] = [[] for _ in schema]
        self._done = [self._converted()]

    def add(self, *row: Any) -> None:
        """Add a row."""
        self.extend([value] for value in row)

    def extend(self, columns: Iterable[Sequence[Any]]) -> None:
        """Add rows.

        Args:
            columns: the columns of these rows.
        """
        for column, values in zip(self._columns, columns, strict=True):
            column.extend(values)
        if len(self._columns[0]) >= _MANY:
            self._done.append(self._converted())

    def table(self) -> pl.DataFrame:
        """Return all rows as one table."""
        return pl.concat([*self._done, self._converted()])

    def _converted(self) -> pl.DataFrame:
        # hand whole columns to Polars, because it would take rows apart cell by cell
        columns, self._columns = self._columns, [[] for _ in self._schema]
        pairs = zip(columns, self._schema.items(), strict=True)
        return self._convert(pl.DataFrame([self._series(name, values, kind) for values, (name, kind) in pairs]))

    def _series(self, name: str, values: list[Any], kind: pl.DataType) -> pl.Series:
        types = {NoneType, *map(type, values)}
        if kind != pl.String or types == {str, NoneType}:
            return pl.Series(name, values, dtype=kind)
        if types == {int, NoneType} and all(-_LARGEST <= value <= _LARGEST for value in values if value is not None):
            return pl.Series(name, values, dtype=pl.Int64).cast(pl.String)
        return pl.Series(name, list(map(self._text, values)), dtype=kind)


class _Numbers(dict[str, int]):
    """Maps texts to numbers: a new text gets the next number. Texts are cut after `TEXT` characters."""

    def __missing__(self, text: str) -> int:
        return self[text[:TEXT]] if len(text) > TEXT else self.setdefault(text, len(self))


class _Taken:
    """Collects events one by one.

    Args:
        arguments: names of the arguments of spans to keep.
    """

    def __init__(self, arguments: tuple[str, ...]) -> None:
        self._wanted = dict.fromkeys(arguments)
        self._spans = _Rows(_SPANS, _timed, _text)
        found = pl.Schema({"row": pl.UInt32, **dict.fromkeys(arguments, pl.String)})
        self._found = _Rows(found, lambda table: table, _any_text)
        self._flows = _Rows(_FLOWS, _flown, _text)
        self._counters = _Rows(_COUNTERS, _counted, _text)
        self._held = _Rows(_ALLOCATED, _totals, _text)
        self._texts = _Numbers()
        self._processes: dict[str, str] = {}
        self._labels: dict[str, str] = {}
        self._threads: dict[tuple[str, str], str] = {}
        self._open: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self._count = 0
        self._damaged = 0

    def events(self, head: dict[str, Any], counts: ReadCounts) -> Events:
        """Return the collected events.

        Args:
            head: all keys of the file's object except `traceEvents`.
            counts: receives the number of unusable events.
        """
        shift_ns = _base_ns(head)
        closed = self._count
        for begun in self._open.values():
            self._take_spans(begun, [None] * len(begun), [None] * len(begun))
        spans = _ended(self._spans.table().with_columns(unfinished=pl.col("row") >= closed))
        usable = spans.filter(pl.col("end_ns") >= pl.col("start_ns"))
        counts.damaged_events += self._damaged + spans.height - usable.height
        texts = pl.Series(list(self._texts), dtype=pl.String)
        shifted = usable.with_columns(pl.col("start_ns", "end_ns") + shift_ns)
        ordered = shifted.sort("start_ns", "end_ns", descending=[False, True], maintain_order=True)
        named = {name: texts.gather(ordered[name]) for name in ("name", "category", "pid", "tid")}
        shift = pl.col("time_ns") + shift_ns
        return Events(
            spans=ordered.with_columns(**named),
            flows=self._flows.table().with_columns(shift).drop_nulls(),
            counters=self._counters.table().with_columns(shift).drop_nulls(),
            held=self._held.table().with_columns(shift).drop_nulls("time_ns"),
            found=self._found.table(),
            processes=self._processes,
            labels=self._labels,
            threads=self._threads,
            head=head,
        )

    def take_all(self, events: list[Any]) -> None:
        """Collect events. Instants are skipped, except for PyTorch's records of memory."""
        try:
            kinds = [event["ph"] for event in events]
        except (TypeError, KeyError):
            kinds = []
        # A span gets its row number when it ends. So a list with separate events for begin and end is read one by one
        if not kinds or set(map(type, kinds)) != {str} or "B" in kinds or "E" in kinds:
            for event in events:
                self._take(event)
            return
        pairs = list(zip(events, kinds, strict=True))
        self._lengths([event for event, kind in pairs if kind == "X"])
        self._flow([event for event, kind in pairs if kind in _FLOW])
        for event, kind in pairs:
            if kind != "X" and kind not in _FLOW:
                self._take(event)

    def _take(self, event: Any) -> None:
        if not isinstance(event, dict) or not isinstance(event.get("ph"), str):
            self._damaged += 1
            return
        kind = event["ph"]
        thread = str(event.get("pid", "")), str(event.get("tid", ""))
        if kind == "X":
            self._lengths([event])
        elif kind == "B":
            self._open.setdefault(thread, []).append(event)
        elif kind == "E":
            self._close(event, thread)
        elif kind in _FLOW:
            self._flow([event])
        elif kind == "C":
            self._value(event, thread[0])
        elif kind == "M":
            self._describe(event, thread)
        elif kind in ("i", "I") and event.get("name") == _MEMORY and isinstance(args := event.get("args"), dict):
            self._held.add(event.get("ts"), *(args.get(name) for name in _HELD))

    def _lengths(self, events: list[dict[str, Any]]) -> None:
        """Collect spans that have a duration."""
        self._take_spans(events, [event.get("dur", 0) for event in events], [None] * len(events))

    def _take_spans(self, events: list[dict[str, Any]], lengths: list[Any], ends: list[Any]) -> None:
        number, first = self._texts.__getitem__, self._count
        self._count += len(events)
        named = ([*map(number, _texts(events, key))] for key in ("name", "cat", "pid", "tid"))
        begins = [event.get("ts") for event in events]
        self._spans.extend((*named, begins, lengths, ends, range(first, self._count)))
        wanted = self._wanted.keys()
        described = [(row, event["args"]) for row, event in enumerate(events, first) if "args" in event]
        described = [(row, args) for row, args in described if isinstance(args, dict) and not wanted.isdisjoint(args)]
        if described:
            columns = ([args.get(name) for _, args in described] for name in wanted)
            self._found.extend(([row for row, _ in described], *columns))

    def _flow(self, events: list[dict[str, Any]]) -> None:
        begins = [event["ph"] == "s" for event in events]
        times = [event.get("ts") for event in events]
        self._flows.extend((begins, _texts(events, "cat"), _texts(events, "id"), times, _texts(events, "tid")))

    def _value(self, event: dict[str, Any], process: str) -> None:
        args = event.get("args")
        value = next(iter(args.values()), None) if isinstance(args, dict) else None
        self._counters.add(process, str(event.get("name", "")), event.get("ts"), value)

    def _close(self, event: dict[str, Any], thread: tuple[str, str]) -> None:
        begun = self._open.get(thread)
        if not begun:
            self._damaged += 1
            return
        self._take_spans([begun.pop()], [None], [event.get("ts")])

    def _describe(self, event: dict[str, Any], thread: tuple[str, str]) -> None:
        args = event.get("args")
        if not isinstance(args, dict):
            return
        if event.get("name") == "process_name":
            self._processes[thread[0]] = str(args.get("name", ""))
        elif event.get("name") == "process_labels":
            self._labels[thread[0]] = str(args.get("labels", ""))
        elif event.get("name") == "thread_name":
            self._threads[thread] = str(args.get("name", ""))


def _texts(events: list[dict[str, Any]], key: str) -> list[str]:
    """Return the text under a key of each event, empty for an event without the key."""
    return [*map(str, [event.get(key, "") for event in events])]


def _ns(column: str) -> pl.Expr:
    return nanoseconds(pl.col(column))


def _timed(rows: pl.DataFrame) -> pl.DataFrame:
    end = pl.coalesce(_ns("ts") + _ns("dur"), _ns("end"))
    return rows.with_columns(start_ns=_ns("ts"), end_ns=end).drop("ts", "dur", "end")


def _ended(spans: pl.DataFrame) -> pl.DataFrame:
    """Set the end of each unfinished span to the latest time in the trace."""
    last = pl.max_horizontal(pl.col("end_ns").max(), pl.col("start_ns").max())
    return spans.with_columns(pl.when("unfinished").then(last).otherwise("end_ns").alias("end_ns"))


def _counted(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select("pid", "name", _ns("ts").alias("time_ns"), pl.col("value").cast(pl.Float64, strict=False))


def _flown(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select("begin", "category", "id", "tid", time_ns=_ns("ts"))


def _totals(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(_ns("ts").alias("time_ns"), pl.col(_HELD).cast(pl.Int64, strict=False))


def _base_ns(head: dict[str, Any]) -> int:
    """Return the zero point of the trace's times, ns since the epoch. It is not 0 since PyTorch 2.4."""
    try:
        base = int(head.get("baseTimeNanoseconds", 0))
    except (TypeError, ValueError):
        return 0
    # limit the base to half of the largest number, so that base + time does not overflow
    return base if abs(base) <= _LARGEST // 2 else 0


def _text(value: Any) -> str | None:
    return None if isinstance(value, (bool, dict, list)) else _any_text(value)


def _any_text(value: Any) -> str | None:
    return None if value is None else str(value)
