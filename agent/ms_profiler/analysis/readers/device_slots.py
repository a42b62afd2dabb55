"""Turn the records of a device (GPU or NPU) that ms-profiler traced, and wrote into its store, into tables.

A kernel and the call that launched it have the same correlation id. Ids wrap around. So a kernel belongs to the latest
call with its id that began before the kernel. The time of this call, not the time of the kernel, decides whether the
kernel belongs to the run.

A task is a kernel or another piece of work of the device. There may be tens of millions of tasks. Metrics use only a
few columns of all tasks (`tables.RUNS`). The remaining columns are made only for the tasks that the results show.
"""

from dataclasses import replace
from typing import Final

import polars as pl

from ms_profiler.analysis.columns import CHUNK, COLUMNS
from ms_profiler.analysis.columns.slots import Traced, narrowed
from ms_profiler.analysis.driver import thinning
from ms_profiler.analysis.metrics import intervals, replicas, steps
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import (
    demangle,
    device_marks,
    device_tensors,
    driver_calls,
    host_reads,
    not_collected,
    reservations,
)
from ms_profiler.analysis.readers.device_sources import SOURCES, DeviceSource
from ms_profiler.store.device_format import Device, Source

#: a kernel may seem to begin up to this long before its launch, because the device's clock is converted by a linear fit
SLACK_NS: Final = 1_000_000
#: `level` in `tables.DRIVER_CALLS` for the overhead of tracing and for the loading of code
OVERHEAD: Final = "overhead"
#: name of kernels without a reported name
UNNAMED: Final = "(kernel without a name)"

#: `level` in `tables.DRIVER_CALLS` for waits: the host waits for a device, or one stream waits for another
WAIT: Final = "wait"

_WAITED: Final = (Device.SYNC,)
_RESERVED: Final = (Device.MEMORY,)
_ALLOCATES: Final = "allocate"
_RELEASES: Final = "release"
_COPIED: Final = (Device.COPY, Device.SET)
_OVERHEADS: Final = (Device.OVERHEAD,)
_MARKED: Final = (Device.MARKER,)
#: number of types of records that `_key` can tell apart; a power of two
_TYPES: Final = 64
_LAUNCHED: Final = pl.coalesce("launch_ns", "start_ns")
_NOTHING: Final = Traced.joined([])


def known(recording: tables.Recording, found: dict[int, Traced]) -> dict[int, Traced]:
    """Drop the records of interfaces that this version does not know, and note their number in the run's record.

    Args:
        recording: the run.
        found: the device records, by process.
    """
    ours, by_process, others = pl.col("source").is_in([int(source) for source in SOURCES]), {}, 0
    for process, traced in found.items():
        known = [part for part in (traced.ran, traced.others) if not part.is_empty()]
        unknown = sum(int(part.select((~ours).sum()).item()) for part in known)
        others += unknown
        # usually ms-profiler knows all of the millions of records; then it does not copy them
        if unknown:
            traced = replace(traced, ran=traced.ran.filter(ours), others=traced.others.filter(ours))
        by_process[process] = traced
    if others:
        why = "a newer version of ms-profiler wrote them; analyse with that version"
        recording.info.not_collected.append({"what": f"{others} records of a device", "why": why})
    return by_process


def mark(recording: tables.Recording, found: dict[int, Traced]) -> None:
    """Add markers to the spans and instants: marks of host threads, as the interface of a device reported them.

    Args:
        recording: the recording, before `left_out` removes records from it.
        found: the device records, by process.
    """
    marks = [
        _marks(recording, traced.others).with_columns(pl.lit(process, pl.UInt32).alias("process"))
        for process, traced in found.items()
        if not traced.others.is_empty()
    ]
    if any(part.height for part in marks):
        device_marks.attach(recording, pl.concat(marks).filter(pl.col("native_tid") > 0))


def attach(recording: tables.Recording, found: dict[int, Traced]) -> None:
    """Add the tables of the device to a recording, if anything ran on a device.

    Args:
        recording: the run, with its steps, threads and names.
        found: pid -> the device records of the process. Used records are removed, to free memory.
    """
    ran = {process for process, traced in found.items() if not traced.ran.is_empty()}
    process = (marked := steps.marked(recording)).process
    not_collected.killed(recording, ran | {process})
    if not ran:
        return
    if others := len(ran - {process}):
        why = "only the kernels of the process with the steps are shown"
        recording.info.not_collected.append(
            {"what": f"kernels of {others} other process{'es' * (others > 1)}", "why": why}
        )
    records = _Records(recording, found, process)
    host_reads.settle(recording, marked, records.calls, records.source)
    whole = records.whole()
    if whole.runs.height <= thinning.TASKS:
        recording.device = records.details(None)
    else:
        whole.details = records.details
        source = records.source
        recording.device = tables.Device(source.form, pl.DataFrame(schema=tables.TASKS), [source.name])
    recording.device.whole, recording.device.unread = whole, driver_calls.lost(whole.call_sums, whole.totals.tasks)
    reservations.count(recording, records.memory(), process)
    device_tensors.attach(recording)


class _Records:
    """The device records of the process that runs the steps, limited to the time of the run.

    Args:
        recording: the run.
        found: pid -> the device records of the process; the records of this process are removed from the dictionary.
        process: the pid of the process.
    """

    def __init__(self, recording: tables.Recording, found: dict[int, Traced], process: int) -> None:
        self._recording = recording
        known = recording.threads.filter(pl.col("process") == process, pl.col("native_tid") > 0)
        self._threads = known.unique("native_tid", keep="last").with_columns(
            pl.col("native_tid").cast(pl.UInt32, strict=False)  # null if the number is damaged
        )
        sources = pl.concat(
            [traced.ran["source"].head(1) for traced in (found.get(process, _NOTHING), *found.values())]
        )
        self.source: DeviceSource = SOURCES[Source(sources[0])]
        calls, ran, others = _by_time(found.pop(process, _NOTHING))
        self._marks = _marks(recording, others)
        self._ran = self._cut(self._launched(ran, calls), _LAUNCHED)
        self._copies = self._cut(self._launched(_of(others, _COPIED), calls), _LAUNCHED)
        self._waits = self._cut(self._launched(_of(others, _WAITED), calls), pl.col("start_ns"))
        self._reserved = self._cut(self._launched(_of(others, _RESERVED), calls), pl.col("start_ns"))
        self._overheads = self._cut(_of(others, _OVERHEADS), pl.col("start_ns"))
        self.calls = self._cut(calls.drop("correlation"), pl.col("start_ns"))
        devices = pl.concat([ran["device"].unique().cast(pl.UInt32) for ran in (self._ran, self._copies)])
        self._several = devices.n_unique() > 1
        self._kernels = self._named()

    def whole(self) -> tables.Whole:
        """Return what metrics need for all tasks: `tables.RUNS`, the kernels, sums of calls, and times of copies."""
        leveled = ((self.calls, self.source.level), (self._overheads, OVERHEAD), (self._waits, WAIT))
        sums = pl.concat([driver_calls.summed(rows, level, self._recording.names) for rows, level in leveled])
        runs = narrowed(self._ran.select(_lane(self._several), *list(tables.RUNS)[1:]), "stream")
        waits = self._as_waits(replicas.of_gloo(self._recording, self._waits))
        return tables.Whole(runs, self._kernels, sums, copied=intervals.union(self._copies), waits=waits)

    def details(self, within: pl.DataFrame | None) -> tables.Device:
        """Return the tasks that were launched in given intervals, with the calls and the copies in these intervals.

        The records outside of the intervals are dropped first, so that their memory is free when the tables are made.

        Args:
            within: the intervals, with `start_ns` and `end_ns`; None for the whole run.
        """
        if within is not None:
            self._keep(within)
        called = [
            driver_calls.calls(rows, level, self._recording.names)
            for rows, level in ((self.calls, self.source.level), (self._overheads, OVERHEAD))
        ]
        return tables.Device(
            self.source.form,
            self._tasks(self._ran),
            [self.source.name],
            calls=pl.concat(called).sort("start_ns", maintain_order=True),
            launches=self._launches(self._ran),
            copies=self._as_copies(self._copies),
            waits=self._as_waits(self._waits),
            reservations=self._reservations(),
            memory=self.memory(),
            marks=device_marks.of_device(
                device_marks.wanted(self._recording, self._marks).filter(pl.col("native_tid") == 0),
                _lane(self._several),
            ),
        )

    def _keep(self, within: pl.DataFrame) -> None:
        """Drop the records outside of some intervals."""

        def inside(rows: pl.DataFrame, moment: pl.Expr) -> pl.DataFrame:
            return rows.filter(intervals.locate(rows.select(moment).to_series(), within).is_not_null())

        self.calls = inside(self.calls, pl.col("start_ns"))
        self._ran = inside(self._ran, _LAUNCHED)
        self._copies = inside(self._copies, _LAUNCHED)
        self._overheads = inside(self._overheads, pl.col("start_ns"))
        self._waits = inside(self._waits, pl.col("start_ns"))
        self._marks = inside(self._marks, pl.col("start_ns"))
        COLUMNS.trim()

    def memory(self) -> pl.DataFrame:
        """Return the memory allocated by the driver, as `tables.DEVICE_MEMORY`."""
        return reservations.held(self._reservations())

    def _launched(self, ran: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
        """Add `launch_ns` and `thread`, the time and the thread of each record's launch; null if unknown."""
        queries = ran.select("correlation", pl.col("start_ns") + SLACK_NS)
        row = COLUMNS.latest(queries, calls.select("correlation", "start_ns"))
        del queries
        thread = [pl.Series("thread", dtype=pl.UInt32)]
        for part in row.to_frame().iter_slices(CHUNK):
            callers = calls["native_tid"].gather(part.to_series())
            found = callers.replace_strict(self._threads["native_tid"], self._threads["thread"], default=None)
            thread.append(found.cast(pl.UInt32).alias("thread"))
        launched = ran.with_columns(calls["start_ns"].gather(row).alias("launch_ns"), pl.concat(thread, rechunk=True))
        launched = narrowed(launched, "thread")
        del row
        COLUMNS.trim()
        return launched

    def _cut(self, ran: pl.DataFrame, moment: pl.Expr) -> pl.DataFrame:
        return cut(self._recording, ran, moment)

    def _named(self) -> pl.DataFrame:
        """Add `kernel` and `exchange` to the tasks, and return the kernels. `kernel` is a row number of the result.

        Tasks have the same kernel if they agree in readable name, core and group. The column `marked` of the result
        says whether the interface itself calls the kernel an exchange.
        """
        names, source = self._recording.names, self.source
        # millions of tasks share some hundred names. So process each distinct name only once
        parts = [self._ran.head(0), *self._ran.iter_slices(CHUNK)]
        different = pl.concat([_key(part).unique(maintain_order=True) for part in parts]).unique(maintain_order=True)
        details = names.gather(different["detail"] // _TYPES)
        marked = different["detail"] % _TYPES == int(Device.COMMUNICATION)
        texts = names.gather(different["name"])
        readable = demangle.names(texts.unique().to_list())
        text = texts.replace_strict(list(readable), list(readable.values()), return_dtype=pl.String)
        text = text.replace("", UNNAMED)
        exchange = marked | text.str.contains(source.exchanges)
        core = details.str.strip_prefix(source.core_begin).replace({**source.cores, "": source.core})
        # if the interface marks an exchange, `detail` is not the core but the group
        core = core.set(exchange, source.exchange_core)
        group = details.set(~marked, "")
        described = pl.DataFrame({"name": text, "core": core, "group": group, "exchange": exchange, "marked": marked})
        kernels = described.unique(maintain_order=True)
        numbered = narrowed(kernels.with_row_index("kernel"), "kernel")
        row = described.join(numbered, on=described.columns, how="left", maintain_order="left")
        place = pl.concat([COLUMNS.find(_key(part), different) for part in parts])
        del parts
        self._ran = self._ran.with_columns(
            row["kernel"].gather(place).alias("kernel"), exchange.gather(place).alias("exchange")
        ).drop("type", "name", "detail")
        return kernels.select("name", pl.lit(None, pl.String).alias("type"), "core", "group", "marked")

    def _tasks(self, ran: pl.DataFrame) -> pl.DataFrame:
        kernels = self._kernels[ran["kernel"]]
        return ran.select(
            _lane(self._several),
            kernels["name"],
            kernels["type"],
            kernels["core"],
            pl.when("exchange").then(kernels["group"]).alias("group"),
            pl.lit(None, pl.String).alias("shapes"),
            "start_ns",
            "end_ns",
            "exchange",
            "launch_ns",
            pl.col("launch_ns").alias("driver_ns"),
        ).cast(tables.TASKS)

    def _launches(self, ran: pl.DataFrame) -> pl.DataFrame:
        """Return `tables.LAUNCHES`.

        In a record, `amount` is the number of blocks of a kernel. If the interface calls the record an exchange,
        `amount` is the number of bytes.
        """
        marked = ran.with_columns(self._kernels["marked"].gather(ran["kernel"]))
        sent = pl.when("marked", pl.col("amount") > 0).then("amount")
        blocks = pl.when("marked").then(0).otherwise("amount")
        return marked.with_columns(bytes=sent, amount=blocks).select(tables.LAUNCHES.names()).cast(tables.LAUNCHES)

    def _as_copies(self, ran: pl.DataFrame) -> pl.DataFrame:
        name, direction = (self._recording.names.gather(ran[column]) for column in ("name", "detail"))
        return ran.select(
            _lane(self._several),
            pl.Series("name", [f"{what} {way}".rstrip() for what, way in zip(name, direction, strict=True)], pl.String),
            (pl.col("type") == int(Device.SET)).alias("sets"),
            pl.col("amount").alias("bytes"),
            *("start_ns", "end_ns", "launch_ns", "thread", "correlation", "device", "context"),
        ).cast(tables.COPIES)

    def _as_waits(self, waited: pl.DataFrame) -> pl.DataFrame:
        name = self._recording.names.gather(waited["name"])
        return waited.with_columns(name).select(tables.WAITS.names()).cast(tables.WAITS)

    def _reservations(self) -> pl.DataFrame:
        """Return the driver's allocations and releases, without records that only announce a memory pool."""
        names = self._recording.names
        named = self._reserved.with_columns(
            names.gather(self._reserved["name"]), names.gather(self._reserved["detail"]).alias("detail")
        )
        return (
            named.filter(pl.col("detail").is_in([_ALLOCATES, _RELEASES]))
            .select(
                "device",
                "name",
                (pl.col("detail") == _ALLOCATES).alias("allocates"),
                pl.col("amount").alias("bytes"),
                pl.col("start_ns").alias("time_ns"),
                "launch_ns",
                "thread",
            )
            .cast(tables.RESERVATIONS)
        )


def _key(ran: pl.DataFrame) -> pl.DataFrame:
    return ran.select(pl.col("name").cast(pl.UInt32), pl.col("detail").cast(pl.UInt32) * _TYPES + pl.col("type"))


def cut(recording: tables.Recording, ran: pl.DataFrame, moment: pl.Expr) -> pl.DataFrame:
    """Return the rows whose time lies within the run, but not in a step that the run's schedule leaves out.

    Args:
        recording: the run.
        ran: the rows, of any table.
        moment: an expression for the time of each row, ns since the epoch.
    """
    window = recording.info.window
    if window.get("start_ns"):
        start = recording.clock.epoch_ns(window["start_ns"])
        end = recording.clock.epoch_ns(window["end_ns"]) if window.get("end_ns") else tables.LATEST
        ran = ran.filter(moment >= start, moment < end)
    left_out = recording.steps.filter(pl.col("content") == tables.TIMES_ALONE).sort("start_ns")
    if left_out.is_empty():
        return ran
    return ran.filter(intervals.locate(ran.select(moment).to_series(), left_out).is_null())


def _marks(recording: tables.Recording, others: pl.DataFrame) -> pl.DataFrame:
    """Return all markers, with their `text` and `domain`."""
    marks = cut(recording, _of(others, _MARKED), pl.col("start_ns"))
    texts = (
        recording.names.gather(marks[column]).alias(name) for column, name in (("name", "text"), ("detail", "domain"))
    )
    return marks.with_columns(*texts)


def _by_time(traced: Traced) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return the calls, the tasks and the other records, each sorted by start."""
    calls, ran, others = traced.calls, traced.ran.drop("source"), traced.others
    del traced
    tables_of = [calls.get_columns(), ran.get_columns(), others.get_columns()]
    del calls, ran, others
    ordered = [_in_order(columns) for columns in tables_of]
    return ordered[0], ordered[1], ordered[2]


def _in_order(columns: list[pl.Series]) -> pl.DataFrame:
    """Sort columns by `start_ns`, one column after the other, so that the whole table is never in memory twice.

    Args:
        columns: the columns, which are changed in place.
    """
    starts = next(column for column in columns if column.name == "start_ns")
    starts = starts.rechunk()
    # `order` sorts by its first argument, the lanes, and then by start. Here only the starts matter. Passing them as
    # lanes, too, saves the memory of a column of zeros. The starts may become unsigned: no time is negative
    order = COLUMNS.order(starts.reinterpret(signed=False), starts, starts)
    del starts
    for place, column in enumerate(columns):
        columns[place] = column.gather(order)
        del column
        COLUMNS.trim()
    return pl.DataFrame(columns)


def _of(found: pl.DataFrame, kinds: tuple[Device, ...]) -> pl.DataFrame:
    return found.filter(pl.col("type").is_in([int(kind) for kind in kinds]))


def _lane(several: bool) -> pl.Expr:
    """Return a unique number for each stream: device * 2**16 + stream if there are several devices, else stream."""
    lane = pl.col("device").cast(pl.UInt32) * 2**16 + pl.col("stream") if several else pl.col("stream")
    return lane.cast(pl.UInt32).alias("stream")
