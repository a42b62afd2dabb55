"""Read ms-profiler's own store: the segments of every process of a result directory, as tables.

A segment is a file of slots, and a slot is a record of 32 bytes. A recording of more than `MOST_SLOTS` slots is too
large for memory, so its tables lack the fine-grained spans (modules and operators). `driver.thinning` and
`driver.sections` then use `Recording.again`, which reads the spans of an interval a second time, batch by batch.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.columns import COLUMNS
from ms_profiler.analysis.columns.slots import FORWARDS, SLOTS, TIMES, Traced, Wanted, decoded, names_of
from ms_profiler.analysis.driver import liveness
from ms_profiler.analysis.driver.ahead import ahead
from ms_profiler.analysis.driver.progress import Progress, Stage
from ms_profiler.analysis.metrics.operands import SHAPED, renamed, texts, with_shapes
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.model.clock import Clock
from ms_profiler.analysis.readers import (
    damage,
    device_slots,
    guesses,
    kernel_windows,
    left_out,
    looks,
    metric_slots,
    not_collected,
    operand_windows as operands,
    run_record,
    slot_table,
    span_categories,
    stack_slots,
    step_marks,
    tensor_blocks,
    window,
)
from ms_profiler.analysis.readers.regions import regions
from ms_profiler.analysis.readers.window import Window
from ms_profiler.analysis.streams.nesting import nest
from ms_profiler.errors import StoreError
from ms_profiler.store import layout, reader, run_info
from ms_profiler.store.format import Category, Kind
from ms_profiler.store.reader import Anchor, ProcessStore, ReadCounts

#: largest number of slots of a recording that is held in memory: 0.5 GB, and 0.5 GB in the file of a timeline
MOST_SLOTS: Final = 3_000_000
#: assumed uncertainty (half width) of the two clock readings in the run's record, which Python took
_FALLBACK_HALF_WIDTH_NS: Final = 1_000_000
#: name of records whose name was lost, and its row in `names`
_LOST_NAME, _LOST_NAME_ROW = "(name lost)", 1
#: columns of device records that hold names
_NAMED: Final = ("name", "detail")
_ALWAYS: Final = (tables.EARLIEST, tables.LATEST)
_TIMES: Final = pl.Schema({"thread": pl.UInt32, "start_ns": pl.Int64, "end_ns": pl.Int64})
_EXTENTS: Final = pl.Schema({"thread": pl.UInt32, "first_ns": pl.Int64, "last_start_ns": pl.Int64, "path": pl.Binary})
_NO_OPERANDS, _NO_TIMES, _NO_SLOTS = (pl.DataFrame(schema=schema) for schema in (operands.FOUND, _TIMES, SLOTS))


def read(directory: str, progress: Progress | None = None) -> tables.Recording:
    """Read the store of one result directory.

    Args:
        directory: a `*_ascend_ms` directory.
        progress: receives the number of slots read so far after each batch.

    Raises:
        StoreError: the directory has no segment that can be read.
    """
    progress = progress or Progress(directory, None)
    counts = ReadCounts()
    info, has_info = run_record.read(directory, counts)
    found = [reader.read_process(folder, counts) for folder in layout.process_dirs(directory)]
    stores = [store for store in found if store is not None]
    if not stores:
        reasons = counts.reasons
        raise StoreError(f"{directory} holds no segment that can be read{f' ({reasons})' if reasons else ''}.")
    fallback = Anchor(info.started_ns, int(info.started_wall * 1e9), _FALLBACK_HALF_WIDTH_NS)
    anchors = [anchor for store in stores for anchor in store.anchors]
    daemons = {pid for store in stores for pid in store.info.daemons}
    clock = Clock.from_anchors(anchors, fallback if info.started_ns else None)
    texts = {"": 0, _LOST_NAME: _LOST_NAME_ROW}
    most = sum(store.most_slots for store in stores)
    coarse = most > MOST_SLOTS
    progress.of(most)
    own = Window.of(info)
    parts = [_Process(store, clock, texts, counts, coarse, own).read(info, progress) for store in stores]
    progress.of(counts.slots)  # now the number of records is known; before, it was estimated from file sizes
    recording = tables.Recording(
        directory=directory,
        info=info,
        has_info=has_info,
        clock=clock,
        counts=counts,
        names=pl.Series("name", list(texts), dtype=pl.String),
        processes=pl.DataFrame([part.settled(daemons) for part in parts], schema=tables.PROCESSES),
        threads=pl.concat([part.threads for part in parts]).sort("process", "thread"),
        spans=nest(pl.concat([part.spans for part in parts])).select(tables.SPANS.names()),
        instants=pl.concat([part.instants for part in parts]).sort("process", "thread", "time_ns"),
        counters=pl.concat([part.counters for part in parts]).sort("process", "name", "time_ns"),
        steps=pl.concat([part.steps for part in parts]).sort("process", "thread", "start_ns"),
        looks=pl.concat([part.looks for part in parts]).sort("process", "thread", "time_ns"),
        metrics=pl.concat([part.metrics for part in parts]).sort("process", "name", "native_tid", "time_ns"),
        frames=pl.concat([part.frames for part in parts]).sort("process", "node"),
        samples=pl.concat([part.samples for part in parts]).sort("process", "start_ns", maintain_order=True),
        calls=pl.concat([part.calls for part in parts]),
        calls_left_out=sum(part.calls_left_out for part in parts),
        blocks=pl.concat([part.blocks[0] for part in parts]),
        places=pl.concat([part.blocks[1] for part in parts]),
        fine=sum(part.fine for part in parts),
    )
    if coarse:
        recording.again = lambda between, fine: (batch for part in parts for batch in part.again(between, fine=fine))
        recording.starts = clock.epoch(pl.concat([starts for part in parts for starts in part.starts])).sort()
    device = device_slots.known(recording, {part.store.pid: part.traced() for part in parts})
    device_slots.mark(recording, device)
    not_collected.state(recording, stores)
    step_marks.add_compiled(recording)
    left_out.take_away(recording)
    tensor_blocks.attach(recording)
    recording.windows = kernel_windows.windows(recording)
    device_slots.attach(recording, device)
    return recording


@dataclass
class _Process:
    """The slots of one process, converted to the process's rows of every table.

    Attributes:
        coarse: whether fine-grained spans are left out of `spans`.
        window: the part of the store that belongs to this run.
        fine: number of fine-grained spans.
        starts: the starts of some fine-grained spans, ns of CLOCK_MONOTONIC_RAW.
        extents: for each segment with fine-grained spans: thread, first start, last start (same clock), path.
    """

    store: ProcessStore
    clock: Clock
    texts: dict[str, int]
    counts: ReadCounts
    coarse: bool
    window: Window
    row: dict[str, object] = field(default_factory=dict)
    threads: pl.DataFrame = field(default_factory=pl.DataFrame)
    spans: pl.DataFrame = field(default_factory=pl.DataFrame)
    instants: pl.DataFrame = field(default_factory=pl.DataFrame)
    counters: pl.DataFrame = field(default_factory=pl.DataFrame)
    steps: pl.DataFrame = field(default_factory=pl.DataFrame)
    looks: pl.DataFrame = field(default_factory=pl.DataFrame)
    metrics: pl.DataFrame = field(default_factory=pl.DataFrame)
    frames: pl.DataFrame = field(default_factory=pl.DataFrame)
    samples: pl.DataFrame = field(default_factory=pl.DataFrame)
    calls: pl.DataFrame = field(default_factory=pl.DataFrame)
    calls_left_out: int = 0
    blocks: tuple[pl.DataFrame, ...] = ()
    operands: pl.DataFrame = field(default_factory=lambda: _NO_OPERANDS)
    fine: int = 0
    starts: list[pl.Series] = field(default_factory=list)
    extents: list[tuple[int, int, int, str]] = field(default_factory=list)
    _ids: pl.Series = field(default_factory=pl.Series)
    _regions: pl.Series = field(default_factory=lambda: pl.Series(dtype=pl.UInt32))
    _compilations: pl.DataFrame = field(default_factory=lambda: _NO_TIMES)
    _last: int = 0
    _possible: tuple[int, int] = TIMES
    _traced: list[Traced] = field(default_factory=list)

    def read(self, info: run_info.RunInfo, progress: Progress) -> "_Process":
        """Fill the tables from the segments, which are the files with the records of this process."""
        kinds = ("spans", "moments", "steps", "threads", "operands", "looks")
        by_kind: dict[str, list[pl.DataFrame]] = {kind: [] for kind in kinds}
        seen: list[Any] = [self.store.last_ns, self.store.info.ended_ns]
        seen += [anchor.raw_ns for anchor in self.store.anchors]
        records, busy, tracing = 0, set[int](), set[int]()
        stacks, counted, blocks = stack_slots.Stacks(), metric_slots.Metrics(), tensor_blocks.Blocks()
        self._ids, self._possible = self._global_ids(), damage.times(self.store)
        wanted = self._wanted(_ALWAYS, fine=True)
        # the begin or end of the run may cut a step. Such a step is kept if it has enough spans, so read every start
        every = 1 if self.window.start_ns else tables.SAMPLED
        for batch in ahead(slot_table.batches(self.store, self.counts)):
            part = COLUMNS.coarse([segment.piece for segment in batch], wanted, every)
            slots = damage.sound(part.table, self._possible, self.counts)
            heads = slots.filter(pl.col("kind") == Kind.THREAD)
            device = slots.filter(pl.col("kind").is_between(Kind.DEVICE, Kind.DEVICE_PLACE))
            second = slots.filter(pl.col("kind") == Kind.OPERANDS)
            looked = slots.filter(pl.col("kind") == Kind.PROCESSOR)
            seen_in = stacks.take(slots) + counted.take(slots) + blocks.take(slots)
            events = self.window.cut(self._usable(slots, sum(map(len, (heads, device, second, looked))) + seen_in))
            held = part.fine.with_columns(pl.Series("path", [os.fsencode(segment.path) for segment in batch]))
            held = held.filter(pl.col("count") > 0)
            fine = int(held["count"].sum())
            self.counts.slots += fine + events.height + device.height + heads.filter(pl.col("start_ns") > 0).height
            self.counts.slots += second.height + looked.height + seen_in
            self.counts.missing_strings += int(held["lost"].sum())
            self.fine += fine
            self.starts.append(part.starts)
            self.extents += held.select("thread", "first_ns", "last_start_ns", "path").rows()
            records += fine + events.height
            busy |= {*events["thread"].unique(), *held["thread"]}
            for table in (events.rename({"start_ns": "first_ns", "end_ns": "last_ns"}), held):
                seen += [table["first_ns"].min(), table["last_ns"].max()]
            seen += [events["start_ns"].max(), held["last_start_ns"].max(), heads["start_ns"].max()]
            by_kind["spans"].append(events.filter(pl.col("kind") <= Kind.SPAN))
            by_kind["moments"].append(events.filter(pl.col("kind").is_in([Kind.INSTANT, Kind.COUNTER])))
            by_kind["steps"].append(events.filter(pl.col("kind") == Kind.STEP))
            by_kind["threads"].append(heads)
            if device.height:
                tracing |= {*device["thread"].unique()}
                self._take_traced([segment.piece for segment in batch], wanted)
            by_kind["operands"].append(second)
            by_kind["looks"].append(looked)
            progress.at(Stage.READING, self.counts.slots)
        seen.append(stacks.calls.last_ns)
        moments = [int(moment) for moment in seen if moment and damage.possible(moment, self._possible)]
        times = [*map(self.window.clamp, moments)]
        self._last = max(times, default=0)
        self._fill_row(info, self.clock.epoch_ns(min(times, default=0)), self.clock.epoch_ns(self._last), records)
        spans = _stack(by_kind["spans"])
        # ms-profiler's own threads: threads that wrote only device records, samples or counters
        ours = (tracing | stacks.threads | counted.threads) - busy
        self._fill_threads(_stack(by_kind["threads"]).filter(~pl.col("thread").is_in(ours)), busy)
        self.frames = stacks.frames(self.store.pid, self._names)
        self.samples = stacks.samples(self.store.pid, self.clock, self.window.cut)
        bounds = self.window.start_ns, self.window.end_ns
        self.metrics = counted.table(self.store.pid, self.clock, self._names, bounds)
        self.calls = stacks.calls.table(self.store.pid, self.clock, self._names, bounds, self._last)
        self.blocks = blocks.tables(self.store.pid, self.clock, self._names, bounds)
        self.calls_left_out = stacks.calls.left_out
        self._fill_operands(_stack(by_kind["operands"]))
        self.spans = self._own(decoded(spans, self._wanted(_ALWAYS, fine=False)))
        self._count_lost(self.spans["name"])
        self._compilations = self.spans.filter(pl.col("category") == int(Category.COMPILE)).select(_TIMES.names())
        if not self.coarse:
            self.spans = pl.concat([self.spans, *self.again(_ALWAYS, fine=True)])
        self._fill_moments(_stack(by_kind["moments"]))
        self.looks = looks.read(self.window.cut(_stack(by_kind["looks"])), self.store.pid, self.clock)
        work = window.work(spans, *self.starts)
        marks = self.window.steps(guesses.settled(_stack(by_kind["steps"])), work)
        self.steps = step_marks.read(marks, self.store.pid, self.clock)
        return self

    def again(self, between: tuple[int, int], *, fine: bool) -> Iterator[pl.DataFrame]:
        """Read the store again, and yield the spans that begin in an interval, as `tables.UNNESTED`. Count no damage.

        Args:
            between: begin and end of the interval, ns since the epoch, the end excluded.
            fine: whether to yield only the fine-grained spans, all at once, in the order of the records.
        """
        files, most = self.store.files, None
        if fine:
            held = pl.DataFrame(sorted(self.extents), _EXTENTS, orient="row")
            first, last = self.clock.epoch(held["first_ns"]), self.clock.epoch(held["last_start_ns"])
            paths = held.filter((first < between[1]) & (last >= between[0]))["path"]
            files, most = [os.fsdecode(path) for path in paths], sys.maxsize
        # leave out spans that begin after `_last`: the job still runs, and wrote them after the first reading
        wanted = self._wanted((between[0], min(between[1], self.clock.epoch_ns(self._last) + 1)), fine=fine)
        for batch in slot_table.batches(self.store, ReadCounts(), files, most):
            yield self._own(COLUMNS.spans([segment.piece for segment in batch], wanted))

    def _wanted(self, between: tuple[int, int], *, fine: bool) -> Wanted:
        bounds = self.window.start_ns, self.window.end_ns
        return Wanted(self._ids, _LOST_NAME_ROW, self.clock, self._last, bounds, between, fine, self._possible)

    def _own(self, spans: pl.DataFrame) -> pl.DataFrame:
        """Return decoded spans as `tables.UNNESTED`."""
        spans = span_categories.settled(spans, self._regions, self._compilations)
        if spans.select(SHAPED.any()).item():
            spans = spans.with_columns(pl.when(SHAPED).then(self._renamed(spans["arg"])).otherwise("arg").alias("arg"))
        if not self.operands.is_empty():
            keys = ["thread", "start_ns", "name"]
            joined = spans.join(self.operands, on=keys, how="left", maintain_order="left")
            spans = joined.with_columns(arg=with_shapes("arg", "known"))
        return spans.select(pl.lit(self.store.pid, pl.UInt32).alias("process"), pl.all()).select(
            tables.UNNESTED.names()
        )

    def _renamed(self, args: pl.Series) -> pl.Series:
        """Replace the text ids in arguments of operators by rows of `Recording.names`."""
        return renamed(args, names_of(texts(args), self._ids, _LOST_NAME_ROW))

    def _usable(self, batch: pl.DataFrame, heads: int) -> pl.DataFrame:
        """Return the events of a batch, and count unusable slots. `heads`: number of usable slots without an event."""
        torn = int((batch["kind"] == 0).sum())
        events = int(batch["kind"].is_between(Kind.OPEN, Kind.STEP).sum())
        forwards = batch.filter(pl.col("kind").is_between(Kind.OPEN, Kind.STEP), FORWARDS)
        self.counts.torn += torn
        self.counts.unknown += batch.height - events - heads - torn
        self.counts.backwards += events - forwards.height
        return forwards

    def _global_ids(self) -> pl.Series:
        """Return the row of `names` for each string id of the process, and note the rows that are names of regions."""
        rows = [_LOST_NAME_ROW] * (max(self.store.strings, default=0) + 1)
        rows[0] = 0
        for number, text in self.store.strings.items():
            rows[number] = self.texts.setdefault(text, len(self.texts))
        known = pl.DataFrame({"row": rows, "text": [self.store.strings.get(number, "") for number in range(len(rows))]})
        self._regions = known.filter(regions(known["text"]))["row"].cast(pl.UInt32)
        return pl.Series(rows, dtype=pl.UInt32)

    def _names(self, own: pl.Series) -> pl.Series:
        """Return the row of `names` for each string id, and count the ids whose text is missing."""
        rows = names_of(own, self._ids, _LOST_NAME_ROW)
        self._count_lost(rows)
        return rows

    def _count_lost(self, rows: pl.Series) -> None:
        self.counts.missing_strings += int((rows == _LOST_NAME_ROW).sum())

    def _fill_row(self, info: run_info.RunInfo, first_ns: int, last_ns: int, records: int) -> None:
        store = self.store
        self.row = {
            "process": store.pid,
            "parent": store.info.parent,
            "role": store.info.role,
            "name": store.info.name,
            "recorder": store.info.recorder,
            "recorder_reason": store.info.recorder_reason,
            "state": self._state(info),
            "first_ns": first_ns,
            "last_ns": last_ns,
            "records": records,
            "dropped": max(store.dropped, store.info.dropped),
            "dropped_limit": max(store.dropped_limit, store.info.dropped_limit),
        }

    def _state(self, info: run_info.RunInfo) -> str:
        if not self.store.has_info:
            return liveness.VANISHED
        if self.window.end_ns and self.store.info.state != "ended":
            return liveness.STOPPED  # another run continues in the same store
        return liveness.state_of(self.store.info, info, self.store.folder)

    def settled(self, daemons: set[int]) -> dict[str, object]:
        """Return this process's row of `tables.PROCESSES`. `daemons`: pids of children that their parent ends."""
        return self.row | {"state": liveness.settled(str(self.row["state"]), self.store.pid in daemons)}

    def _fill_moments(self, chosen: pl.DataFrame) -> None:
        moments = chosen.with_columns(
            self._names(chosen["id"]),
            self.clock.epoch(chosen["start_ns"]).alias("time_ns"),
            process=pl.lit(self.store.pid, pl.UInt32),
        )
        self.instants = moments.filter(pl.col("kind") == Kind.INSTANT).select(tables.INSTANTS.names())
        counters = moments.filter(pl.col("kind") == Kind.COUNTER)
        counters = counters.with_columns(value=metric_slots.doubles(counters["arg"]))
        self.counters = counters.select(tables.COUNTERS.names())

    def _take_traced(self, pieces: list[bytes], wanted: Wanted) -> None:
        between = self.clock.epoch_ns(self._possible[0]), self.clock.epoch_ns(self._possible[1])
        part = damage.sound_tasks(COLUMNS.devices(pieces, wanted), between, self.counts)
        for names in (part.calls["name"], *(rows[name] for rows in (part.ran, part.others) for name in _NAMED)):
            self._count_lost(names)
        self._traced.append(part.narrowed())

    def traced(self) -> Traced:
        """Return the device records, and keep no reference to them, so that the caller can free their memory."""
        parts, self._traced = self._traced, []
        return Traced.joined(parts)

    def _fill_operands(self, chosen: pl.DataFrame) -> None:
        """Find the spans of the operators whose operands Kineto reported, and keep the result in `operands`."""
        if chosen.is_empty():
            return
        described = chosen.select(
            window=pl.col("end_ns") // 2**32,
            native_tid=(pl.col("end_ns") % 2**32).cast(pl.UInt64),
            name=self._names(chosen["id"]),
            category="category",
            time_ns=self.clock.epoch(chosen["start_ns"]),
            arg=self._renamed(chosen["arg"]),
        )
        times = described["time_ns"].to_list()  # they are not sorted: one thread wrote the records of all threads
        between = min(times) - operands.SLACK_NS, max(times) + operands.SLACK_NS
        spans = pl.concat([pl.DataFrame(schema=tables.UNNESTED), *self.again(between, fine=True)])
        self.operands = operands.match(described, spans, self.threads)

    def _fill_threads(self, heads: pl.DataFrame, busy: set[int]) -> None:
        """Fill `threads`. A thread in `busy` whose slot is damaged has neither name nor system's id."""
        nameless = pl.DataFrame({"thread": sorted(busy - {*heads["thread"]})}, {"thread": pl.UInt32})
        heads = pl.concat([heads, nameless], how="diagonal").fill_null(0)
        names = pl.Series([self.store.strings.get(number, "") for number in heads["id"]], dtype=pl.String)
        self.threads = (
            heads.select(
                pl.lit(self.store.pid, pl.UInt32).alias("process"),
                "thread",
                pl.col("end_ns").cast(pl.UInt64).alias("native_tid"),
                names.alias("thread_name"),
            )
            .unique("thread", keep="last", maintain_order=True)
            .select(tables.THREADS.names())
        )


def _stack(parts: list[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(parts) if parts else _NO_SLOTS
