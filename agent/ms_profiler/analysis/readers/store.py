"""Our own store: the segments of every process of a result directory, as tables.

Segments are decoded in batches of a few megabytes. `reinterpret` turns a million slots into machine words in 0.14 s
as long as a batch stays near the processor's cache (0.38 s in one piece); `memoryview.tolist` takes 0.46 s.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from ms_profiler.analysis import liveness, tables
from ms_profiler.analysis.clock import Clock
from ms_profiler.analysis.nesting import nest
from ms_profiler.errors import StoreError
from ms_profiler.store import format as fmt
from ms_profiler.store import layout, reader, run_info
from ms_profiler.store.format import Flag, Kind
from ms_profiler.store.reader import Anchor, ProcessStore, ReadCounts

#: told how many slots have been read so far
Progress = Callable[[int], None]

#: bytes decoded at once
BATCH = 8 << 20
#: half width of the pair of clock readings in the run's record, which Python takes
_FALLBACK_HALF_WIDTH_NS = 1_000_000
#: offset of the kind inside a slot
_KIND = 28
#: put before a segment whose own THREAD slot is missing
_NO_THREAD = fmt.SLOT.pack(0, 0, tables.UNKNOWN_THREAD, 0, Kind.THREAD, 0, 0, 0)
_LOST_NAME = "(name lost)"

_UNNESTED = pl.Schema({name: kind for name, kind in tables.SPANS.items() if name not in ("depth", "parent")})


def read(directory: str, progress: Progress | None = None) -> tables.Recording:
    """Read the store of one result directory.

    Args:
        directory: a `*_ascend_ms` directory.
        progress: called after each batch.

    Raises:
        StoreError: nothing in it can be read.
    """
    counts = ReadCounts()
    info, has_info = _read_run(directory, counts)
    found = [reader.read_process(folder, counts) for folder in layout.process_dirs(directory)]
    stores = [store for store in found if store is not None]
    if not stores:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in counts.damaged_files) or "it holds no segment"
        raise StoreError(f"{directory} has no recording that can be read ({reasons}).")
    fallback = Anchor(info.started_ns, int(info.started_wall * 1e9), _FALLBACK_HALF_WIDTH_NS)
    anchors = [anchor for store in stores for anchor in store.anchors]
    clock = Clock.from_anchors(anchors, fallback if info.started_ns else None)
    texts: dict[str, int] = {"": 0}
    parts = [_Process(store, clock, texts, counts).read(info, progress) for store in stores]
    return tables.Recording(
        directory=directory,
        info=info,
        has_info=has_info,
        clock=clock,
        counts=counts,
        names=pl.Series("name", list(texts), dtype=pl.String),
        processes=pl.DataFrame([part.row for part in parts], schema=tables.PROCESSES),
        threads=pl.concat([part.threads for part in parts]).sort("process", "thread"),
        spans=nest(pl.concat([part.spans for part in parts])).select(tables.SPANS.names()),
        instants=pl.concat([part.instants for part in parts]).sort("process", "thread", "time_ns"),
        counters=pl.concat([part.counters for part in parts]).sort("process", "name", "time_ns"),
        steps=pl.concat([part.steps for part in parts]).sort("process", "thread", "start_ns"),
    )


def _read_run(directory: str, counts: ReadCounts) -> tuple[run_info.RunInfo, bool]:
    try:
        return run_info.read_run(layout.run_info_path(directory)), True
    except FileNotFoundError:
        reason = "missing"
    except (OSError, ValueError, TypeError) as error:
        reason = str(error)
    counts.damaged_files.append((layout.RUN_INFO, reason))
    return run_info.RunInfo(), False


@dataclass
class _Process:
    """The slots of one process, turned into its part of every table."""

    store: ProcessStore
    clock: Clock
    texts: dict[str, int]
    counts: ReadCounts
    row: dict[str, object] = field(default_factory=dict)
    threads: pl.DataFrame = field(default_factory=pl.DataFrame)
    spans: pl.DataFrame = field(default_factory=pl.DataFrame)
    instants: pl.DataFrame = field(default_factory=pl.DataFrame)
    counters: pl.DataFrame = field(default_factory=pl.DataFrame)
    steps: pl.DataFrame = field(default_factory=pl.DataFrame)

    def read(self, info: run_info.RunInfo, progress: Progress | None) -> "_Process":
        """Fill the tables from the segments."""
        by_kind: dict[str, list[pl.DataFrame]] = {"spans": [], "moments": [], "steps": [], "threads": []}
        seen: list[Any] = [self.store.last_ns, self.store.info.ended_ns]
        seen += [anchor.raw_ns for anchor in self.store.anchors]
        records = 0
        for batch in _batches(self.store, self.counts):
            slots = _decode(batch)
            events = slots.filter(pl.col("kind").is_between(Kind.OPEN, Kind.STEP))
            heads = slots.filter(pl.col("kind") == Kind.THREAD)
            torn = int((slots["kind"] == 0).sum())
            self.counts.torn += torn
            self.counts.unknown += slots.height - events.height - heads.height - torn
            forwards = events.filter((pl.col("end_ns") >= pl.col("start_ns")) | (pl.col("kind") == Kind.OPEN))
            self.counts.backwards += events.height - forwards.height
            self.counts.slots += events.height + heads.filter(pl.col("start_ns") > 0).height
            records += forwards.height
            extent = forwards.select(pl.col("start_ns").min(), pl.col("end_ns").max(), last=pl.col("start_ns").max())
            seen += [*extent.row(0), heads["start_ns"].max()]
            by_kind["spans"].append(forwards.filter(pl.col("kind") <= Kind.SPAN))
            by_kind["moments"].append(forwards.filter(pl.col("kind").is_in([Kind.INSTANT, Kind.COUNTER])))
            by_kind["steps"].append(forwards.filter(pl.col("kind") == Kind.STEP))
            by_kind["threads"].append(heads)
            if progress is not None:
                progress(self.counts.slots)
        times = [int(moment) for moment in seen if moment]
        ids = self._global_ids()
        first, last = min(times, default=0), max(times, default=0)
        self._fill_row(info, self.clock.epoch_ns(first), self.clock.epoch_ns(last), records)
        self._fill_spans(_stack(by_kind["spans"]), ids, last)
        self._fill_moments(_stack(by_kind["moments"]), ids)
        self._fill_steps(_stack(by_kind["steps"]))
        self._fill_threads(_stack(by_kind["threads"]))
        return self

    def _global_ids(self) -> pl.Series:
        """Return the row of `names` for each of the process's own string ids; null where the string is missing."""
        rows: list[int | None] = [None] * (max(self.store.strings, default=0) + 1)
        rows[0] = 0
        for number, text in self.store.strings.items():
            rows[number] = self.texts.setdefault(text, len(self.texts))
        return pl.Series(rows, dtype=pl.UInt32)

    def _names(self, own: pl.Series, ids: pl.Series) -> pl.Series:
        known = own.to_frame("id").select(pl.when(pl.col("id") < len(ids)).then("id")).to_series()
        rows = ids.gather(known)
        missing = rows.null_count()
        if missing:
            self.counts.missing_strings += missing
            rows = rows.fill_null(self.texts.setdefault(_LOST_NAME, len(self.texts)))
        return rows.rename("name")

    def _fill_row(self, info: run_info.RunInfo, first_ns: int, last_ns: int, records: int) -> None:
        store = self.store
        self.row = {
            "process": store.pid,
            "parent": store.info.parent,
            "role": store.info.role,
            "name": store.info.name,
            "recorder": store.info.recorder,
            "recorder_reason": store.info.recorder_reason,
            "state": liveness.state_of(store.info, info) if store.has_info else liveness.VANISHED,
            "first_ns": first_ns,
            "last_ns": last_ns,
            "records": records,
            "dropped": max(store.dropped, store.info.dropped),
            "dropped_limit": max(store.dropped_limit, store.info.dropped_limit),
        }

    def _fill_spans(self, slots: pl.DataFrame, ids: pl.Series, last_ns: int) -> None:
        unfinished = pl.col("kind") == Kind.OPEN
        ended = slots.with_columns(
            process=pl.lit(self.store.pid, pl.UInt32),
            unfinished=unfinished,
            end_ns=pl.when(unfinished).then(last_ns).otherwise("end_ns"),
        )
        self.spans = ended.with_columns(
            self._names(slots["id"], ids), self.clock.epoch(ended["start_ns"]), self.clock.epoch(ended["end_ns"])
        ).select(_UNNESTED.names())

    def _fill_moments(self, slots: pl.DataFrame, ids: pl.Series) -> None:
        moments = slots.with_columns(
            self._names(slots["id"], ids),
            self.clock.epoch(slots["start_ns"]).alias("time_ns"),
            process=pl.lit(self.store.pid, pl.UInt32),
            value=pl.col("arg").reinterpret(dtype=pl.Float64),
        )
        self.instants = moments.filter(pl.col("kind") == Kind.INSTANT).select(tables.INSTANTS.names())
        self.counters = moments.filter(pl.col("kind") == Kind.COUNTER).select(tables.COUNTERS.names())

    def _fill_steps(self, slots: pl.DataFrame) -> None:
        self.steps = slots.select(
            pl.lit(self.store.pid, pl.UInt32).alias("process"),
            "thread",
            pl.col("arg").cast(pl.Int64, strict=False).alias("number"),
            self.clock.epoch(slots["start_ns"]),
            self.clock.epoch(slots["end_ns"]),
            pl.col("category").alias("source"),
            (pl.col("flags") & int(Flag.UNRECORDED) == 0).alias("recorded"),
        )

    def _fill_threads(self, heads: pl.DataFrame) -> None:
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


def _batches(store: ProcessStore, counts: ReadCounts) -> Iterator[bytes]:
    """Yield the event segments joined to batches, each segment with a THREAD slot at its head."""
    pending: list[bytes] = []
    size = 0
    for segment in store.segments(counts):
        if not segment.slots:
            continue
        if segment.slots[_KIND] != Kind.THREAD:
            pending.append(_NO_THREAD)
        pending.append(segment.slots)
        size += len(segment.slots)
        if size >= BATCH:
            yield b"".join(pending)
            pending, size = [], 0
    if pending:
        yield b"".join(pending)


_SLOTS = pl.Schema(
    {
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "arg": pl.UInt64,
        "id": pl.UInt32,
        "kind": pl.UInt8,
        "category": pl.UInt8,
        "flags": pl.UInt8,
        "thread": pl.UInt32,
    }
)


def _decode(batch: bytes) -> pl.DataFrame:
    """Return the slots of a batch as columns; the thread is that of the last THREAD slot before."""
    count = len(batch) // 8
    words = pl.Series([batch]).bin.reinterpret(dtype=pl.Array(pl.UInt64, count), endianness="little").explode()
    raw = pl.DataFrame([words.gather_every(4, offset).alias(name) for offset, name in enumerate("seaw")])
    field = pl.col("w") // 2**32
    slots = raw.select(
        pl.col("s").reinterpret(signed=True).alias("start_ns"),
        pl.col("e").reinterpret(signed=True).alias("end_ns"),
        pl.col("a").alias("arg"),
        (pl.col("w") % 2**32).cast(pl.UInt32).alias("id"),
        (field % 256).cast(pl.UInt8).alias("kind"),
        (field // 256 % 256).cast(pl.UInt8).alias("category"),
        (field // 65536 % 256).cast(pl.UInt8).alias("flags"),
    )
    owner = pl.when(pl.col("kind") == Kind.THREAD).then(pl.col("arg") % 2**32).forward_fill()
    return slots.with_columns(owner.cast(pl.UInt32).alias("thread")).select(_SLOTS.names())


def _stack(parts: list[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(parts) if parts else pl.DataFrame(schema=_SLOTS)
