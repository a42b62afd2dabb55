"""Assemble a recording from lists of spans and tasks. All readers of other tools' results use this module."""

import re
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import device_waits
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.model.clock import Clock
from ms_profiler.analysis.readers.regions import regions
from ms_profiler.analysis.streams.nesting import nest
from ms_profiler.errors import StoreError
from ms_profiler.store.format import Category, StepSource
from ms_profiler.store.reader import ReadCounts
from ms_profiler.store.run_info import RunInfo
from ms_profiler.version import VERSION

#: name of a step's span in the results of all these tools
STEP: Final = re.compile(r"ProfilerStep#(\d+)")

#: columns of the host's spans
HOST: Final = pl.Schema(
    {
        "thread": pl.Int64,  # native id
        "name": pl.String,
        "category": pl.UInt8,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "unfinished": pl.Boolean,  # whether the result lacks the end of the span
    }
)
_PATTERNS: Final = {
    Category.DATA: r"DataLoader.*__next__|^dataloader$|DatasetIterator|GetNext",
    Category.OPTIMIZER: r"^Optimizer\.(step|zero_grad)",
}


#: key of the device's tasks in `Parts.callers`
TASKS: Final = "tasks"
#: the value that stands for a missing rank
_NO_RANK: Final = 2**32 - 1
#: the value that stands for a missing transport
_NOTHING: Final = "N/A"


@dataclass
class Parts:
    """The contents of a result of another tool.

    Attributes:
        host: the spans of the host, including the steps, as `HOST`.
        tasks: the tasks of the device, as `tables.TASKS`.
        threads: native id of a thread -> its name.
        process: pid of the job; 0 if unknown.
        device: further tables of the accelerator; None without an accelerator.
        callers: name of a table -> for each row, the native id of the thread that made its call, as text; null
            if unknown. The names are `launches`, `copies` and `waits`, or `TASKS` if the result has no launches.
    """

    host: pl.DataFrame
    tasks: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=tables.TASKS))
    threads: dict[int, str] = field(default_factory=dict)
    process: int = 0
    device: tables.Device | None = None
    callers: dict[str, pl.Series] = field(default_factory=dict)


def categorised(names: pl.Series) -> pl.Series:
    """Return the category of each host span by its name; OP for a name that matches no pattern.

    Args:
        names: the names of the spans.
    """
    text = pl.lit(names)
    category = pl.when(pl.lit(regions(names))).then(pl.lit(int(Category.MARKER))).otherwise(pl.lit(int(Category.OP)))
    for kind, pattern in _PATTERNS.items():
        category = pl.when(text.str.contains(pattern)).then(pl.lit(int(kind))).otherwise(category)
    return pl.select(category.cast(pl.UInt8).alias("category")).to_series()


def host(spans: pl.DataFrame, kinds: pl.Series, driver: pl.Series) -> pl.DataFrame:
    """Return the spans of a trace as `HOST`.

    Args:
        spans: the spans of a trace, see `trace_events.Events`.
        kinds: the category of each span, as `categorised` returns it.
        driver: whether each span is a call of a device's driver. Such calls are not work of the framework, so their
            category becomes OTHER.
    """
    return spans.select(
        pl.col("tid").cast(pl.Int64, strict=False).fill_null(0).alias("thread"),
        "name",
        kinds.zip_with(~driver, pl.Series([int(Category.OTHER)], dtype=pl.UInt8)),
        "start_ns",
        "end_ns",
        "unfinished",
    )


def usable_transfers(transfers: pl.DataFrame, counts: ReadCounts) -> pl.DataFrame:
    """Return the transfers that have an exchange, a plane, times and a size. A missing rank becomes null.

    Transfers recorded without a profiler level have neither a size nor a transport. They are left out, but do not count
    as damaged.

    Args:
        transfers: `tables.TRANSFERS`.
        counts: receives the number of damaged transfers.
    """
    ranks = (pl.when(pl.col(name) != _NO_RANK).then(name).alias(name) for name in ("source", "target"))
    usable = transfers.filter(
        pl.col("exchange_ns").is_not_null(),
        pl.col("plane").is_not_null(),
        pl.col("end_ns") >= pl.col("start_ns"),
        pl.col("bytes") >= 0,
    ).with_columns(*ranks)
    silent = pl.col("bytes").is_null() & (pl.col("transport").is_null() | (pl.col("transport") == _NOTHING))
    counts.damaged_events += max(transfers.filter(~silent).height - usable.height, 0)
    return usable


def assemble(directory: str, info: RunInfo, counts: ReadCounts, parts: Parts) -> tables.Recording:
    """Make a recording from the contents of another tool's result.

    Args:
        directory: the directory of the result.
        info: the run's record.
        counts: the numbers of records read and skipped; this function adds the spans and tasks.
        parts: the contents of the result.

    Raises:
        StoreError: nothing in the result has a time.
    """
    times = pl.concat([parts.host.select("start_ns", "end_ns"), parts.tasks.select("start_ns", "end_ns")])
    if times.is_empty():
        reasons = "; ".join(f"{name}: {reason}" for name, reason in counts.damaged_files)
        raise StoreError(f"{directory} holds no event that can be read{f' ({reasons})' if reasons else ''}.")
    info.product_version = VERSION
    device = parts.device
    if device is not None and not device.on_host and not device.unread and not device_waits.known(device):
        why = "no call of the device's runtime was recorded, so the waits of the host for the device are unknown"
        info.not_collected.append({"what": "the critical path", "why": why})
    first, last = times.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    numbers = {thread: place for place, thread in enumerate(parts.host["thread"].unique().sort())}
    process = parts.process % 2**32
    for table, callers in parts.callers.items():
        thread = callers.cast(pl.Int64, strict=False).replace_strict(numbers, default=None, return_dtype=pl.UInt32)
        if table == TASKS and device is not None:
            device.callers = thread
            continue
        setattr(device, table, getattr(device, table).with_columns(thread.alias("thread")))
    host = parts.host.with_columns(
        pl.lit(process, pl.UInt32).alias("process"),
        pl.col("thread").replace_strict(numbers, return_dtype=pl.UInt32).alias("place"),
        pl.col("name").str.extract(STEP.pattern, 1).cast(pl.Int64, strict=False).alias("number"),
    )
    # if the span of a step has no end, it does not become a step: it stays a span
    ended = pl.col("number").is_not_null() & ~pl.col("unfinished")
    spans = host.filter(~ended)
    named = spans["name"].unique(maintain_order=True)
    texts = ["", *named.filter(named != "")]
    counts.slots += host.height + parts.tasks.height
    unnested = spans.select(
        "process",
        pl.col("place").alias("thread"),
        pl.col("name").replace_strict(texts, list(range(len(texts))), return_dtype=pl.UInt32),
        "category",
        pl.lit(0, pl.UInt8).alias("flags"),
        "unfinished",
        "start_ns",
        "end_ns",
        pl.lit(0, pl.UInt64).alias("arg"),
    )
    steps = host.filter(ended).select(
        "process",
        pl.col("place").alias("thread"),
        "number",
        "start_ns",
        "end_ns",
        pl.lit(int(StepSource.SCRIPT), pl.UInt8).alias("source"),
        pl.lit(True).alias("recorded"),
        pl.lit(tables.ALL_OF_IT).alias("content"),
        pl.lit(0, pl.UInt32).alias("stretch"),
    )
    row = {
        "process": process,
        "parent": 0,
        "role": "main",
        "name": "",
        "recorder": "",
        "recorder_reason": "recorded by another tool",
        "state": "unknown",
        "first_ns": first,
        "last_ns": last,
        "records": host.height + parts.tasks.height,
        "dropped": 0,
        "dropped_limit": 0,
    }
    return tables.Recording(
        directory=directory,
        info=info,
        has_info=False,
        clock=Clock(((0, 0),), None),
        counts=counts,
        names=pl.Series("name", texts, dtype=pl.String),
        processes=pl.DataFrame([row], schema=tables.PROCESSES),
        threads=pl.DataFrame(
            [(process, place, max(thread, 0), parts.threads.get(thread, "")) for thread, place in numbers.items()],
            schema=tables.THREADS,
            orient="row",
        ),
        # the cast is needed because Polars keeps the old type of a column in which no value was replaced
        spans=nest(unnested.select(tables.UNNESTED.names()).cast(tables.UNNESTED)).select(tables.SPANS.names()),
        instants=pl.DataFrame(schema=tables.INSTANTS),
        counters=pl.DataFrame(schema=tables.COUNTERS),
        steps=steps.select(tables.STEPS.names()).sort("process", "thread", "start_ns"),
        fine=int((unnested["category"] >= Category.MODULE).sum()),
        device=parts.device,
        foreign=True,
    )


def on_threads(rows: pl.DataFrame, threads: pl.DataFrame, caller: str) -> pl.DataFrame:
    """Add the column `thread`: ms-profiler's number of the thread of each row; null for a thread without records.

    Args:
        rows: a table with the pid as `process`.
        threads: `tables.THREADS`.
        caller: the column of `rows` with the thread's native id, UInt32.
    """
    by = ["process", caller]
    known = threads.filter(pl.col("native_tid") > 0).select(
        "process", "thread", pl.col("native_tid").cast(pl.UInt32, strict=False).alias(caller)
    )
    return rows.join(known.unique(by, keep="last"), on=by, how="left", maintain_order="left")
