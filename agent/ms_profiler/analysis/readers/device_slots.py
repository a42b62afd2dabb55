"""Device records to tables: what our own tracing of an accelerator left in the store.

A kernel belongs to the call that launched it: both carry a number, which wraps, so that of several calls with it the
latest before the kernel counts. A call belongs to the moment and the thread that it was made on. What a run holds is
cut by these moments, not by when something ran.

There may be tens of millions of records. What every metric needs of all of them is brought to a few words a task
(`tables.RUNS`); what else is known is made into tables for those that are shown.
"""

import re
from typing import Final

import polars as pl

from ms_profiler.analysis import tables, thinning
from ms_profiler.analysis.columns import CHUNK, COLUMNS
from ms_profiler.analysis.columns.slots import CALLS, RAN, Traced
from ms_profiler.analysis.metrics import intervals, operators, steps
from ms_profiler.analysis.readers import demangle
from ms_profiler.store.device_format import Device

#: how much earlier than its launch a kernel may seem to begin: the clock of a device is brought to ours by a line
SLACK_NS: Final = 1_000_000
#: kernels that exchange data with other ranks
EXCHANGES: Final = r"(?i)^(nccl|rccl|oneccl)|ncclKernel|ncclDevKernel"
#: kernels run on it
CORE: Final = "GPU"
#: level of the calls
LEVEL: Final = "cuda"
#: level of what tracing itself, and loading of code, took
OVERHEAD: Final = "overhead"
#: what stands for a kernel whose name was not told
UNNAMED: Final = "(kernel without a name)"

#: level of waits: of the host for a device, and of streams for each other
WAIT: Final = "wait"
#: what stands for what the driver gave, in the table of what components hold
COMPONENT: Final = "CUDA"

_WAITED: Final = (Device.SYNC,)
_RESERVED: Final = (Device.MEMORY,)
_ALLOCATES: Final = "allocate"
_RELEASES: Final = "release"
#: kinds of memory that is on a device, by how CUPTI's records are read
_ON_DEVICE: Final = ("device memory", "array memory", "managed memory")
_COPIED: Final = (Device.COPY, Device.SET)
_OVERHEADS: Final = (Device.OVERHEAD,)
#: at the end of the names of calls: the version since which they are so, and how streams are taken
_VERSION: Final = re.compile(r"(_ptsz|_ptds)?(_v\d+)?$")
_LAUNCHED: Final = pl.coalesce("launch_ns", "start_ns")
_NOTHING: Final = Traced(pl.DataFrame(schema=CALLS), pl.DataFrame(schema=RAN), pl.DataFrame(schema=RAN))


def attach(recording: tables.Recording, found: dict[int, Traced]) -> None:
    """Give a recording its device, where anything ran on one.

    Args:
        recording: its steps, threads and names.
        found: what was recorded, by process; what is used is taken out of it, since there may be a lot.
    """
    ran = {process for process, traced in found.items() if not traced.ran.is_empty()}
    if not ran:
        return
    process = steps.choose(recording).process
    if others := len(ran - {process}):
        why = "the steps are those of another process, and kernels of one process are shown"
        recording.info.not_collected.append({"what": f"kernels of other processes, {others} of them", "why": why})
    records = _Records(recording, found, process)
    whole = records.whole()
    if whole.runs.height <= thinning.TASKS:
        recording.device = records.details(None)
    else:
        whole.details = records.details
        recording.device = tables.Device(tables.Form.CUPTI, pl.DataFrame(schema=tables.TASKS), ["CUPTI"])
    recording.device.whole = whole
    _count(recording, records.memory(), process)


def _count(recording: tables.Recording, memory: pl.DataFrame, process: int) -> None:
    """Let the timelines show what the driver has given, beside the lane of the steps' thread."""
    if memory.is_empty():
        return
    components = memory["component"].unique(maintain_order=True)
    first = len(recording.names)
    rows = pl.int_range(first, first + len(components), dtype=pl.UInt32, eager=True)
    recording.names = recording.names.append(pl.Series([f"{name} memory" for name in components], dtype=pl.String))
    counted = memory.select(
        pl.lit(process, pl.UInt32).alias("process"),
        pl.lit(steps.choose(recording).thread, pl.UInt32).alias("thread"),
        pl.col("component").replace_strict(components, rows, return_dtype=pl.UInt32).alias("name"),
        "time_ns",
        pl.col("reserved").cast(pl.Float64).alias("value"),
    )
    recording.counters = pl.concat([recording.counters, counted]).sort("process", "name", "time_ns")


class _Records:
    """The records of the process with the steps, cut to its run.

    Args:
        recording: the run.
        found: what was recorded, by process; that of this one is taken out.
        process: pid.
    """

    def __init__(self, recording: tables.Recording, found: dict[int, Traced], process: int) -> None:
        self._recording = recording
        known = recording.threads.filter(pl.col("process") == process, pl.col("native_tid") > 0)
        self._threads = known.unique("native_tid", keep="last").with_columns(pl.col("native_tid").cast(pl.UInt32))
        calls, ran, others = _by_time(found.pop(process, _NOTHING))
        self._ran = self._cut(self._launched(ran, calls), _LAUNCHED)
        self._copies = self._cut(self._launched(_of(others, _COPIED), calls), _LAUNCHED)
        self._waits = self._cut(self._launched(_of(others, _WAITED), calls), pl.col("start_ns"))
        self._reserved = self._cut(self._launched(_of(others, _RESERVED), calls), pl.col("start_ns"))
        self._overheads = self._cut(_of(others, _OVERHEADS), pl.col("start_ns"))
        self._calls = self._cut(calls.drop("correlation"), pl.col("start_ns"))
        devices = pl.concat([self._ran["device"].unique(), self._copies["device"].unique()])
        self._several = devices.n_unique() > 1
        self._kernels = self._named()

    def whole(self) -> tables.Whole:
        """Return what there is of all tasks."""
        leveled = ((self._calls, LEVEL), (self._overheads, OVERHEAD), (self._waits, WAIT))
        sums = pl.concat([_summed(rows, level, self._recording.names) for rows, level in leveled])
        runs = self._ran.select(_lane(self._several), *list(tables.RUNS)[1:])
        return tables.Whole(runs.cast(tables.RUNS), self._kernels, sums)

    def details(self, within: pl.DataFrame | None) -> tables.Device:
        """Return the tasks that were launched in some times, with the calls that were made in them and the copies.

        Args:
            within: these times; None for all.
        """

        def inside(rows: pl.DataFrame, moment: pl.Expr) -> pl.DataFrame:
            if within is None:
                return rows
            return rows.filter(intervals.locate(rows.select(moment).to_series(), within).is_not_null())

        ran, copied = inside(self._ran, _LAUNCHED), inside(self._copies, _LAUNCHED)
        called = [
            _calls(inside(rows, pl.col("start_ns")), level, self._recording.names)
            for rows, level in ((self._calls, LEVEL), (self._overheads, OVERHEAD))
        ]
        return tables.Device(
            tables.Form.CUPTI,
            self._tasks(ran),
            ["CUPTI"],
            calls=pl.concat(called).sort("start_ns", maintain_order=True),
            launches=ran.select(tables.LAUNCHES.names()).cast(tables.LAUNCHES),
            copies=self._as_copies(copied),
            waits=self._as_waits(inside(self._waits, pl.col("start_ns"))),
            reservations=self._reservations(),
            memory=self.memory(),
        )

    def memory(self) -> pl.DataFrame:
        """Return what the driver has given, as `tables.DEVICE_MEMORY`."""
        return held(self._reservations())

    def _launched(self, ran: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
        """Add when and on which thread each was launched: `launch_ns`, `thread`, null where that is not known."""
        asked = ran.select("correlation", pl.col("start_ns") + SLACK_NS)
        row = COLUMNS.latest(asked, calls.select("correlation", "start_ns"))
        callers = calls["native_tid"].gather(row)
        thread = callers.replace_strict(self._threads["native_tid"], self._threads["thread"], default=None)
        launched = calls["start_ns"].gather(row)
        return ran.with_columns(launched.alias("launch_ns"), thread.cast(pl.UInt32).alias("thread"))

    def _cut(self, ran: pl.DataFrame, moment: pl.Expr) -> pl.DataFrame:
        """Keep that of which some moment is in the run's own time, and in no step that its schedule leaves out."""
        recording = self._recording
        window = recording.info.window
        if window.get("start_ns"):
            start = recording.clock.epoch_ns(window["start_ns"])
            end = recording.clock.epoch_ns(window["end_ns"]) if window.get("end_ns") else tables.LATEST
            ran = ran.filter(moment >= start, moment < end)
        left_out = recording.steps.filter(~pl.col("recorded")).sort("start_ns")
        if left_out.is_empty():
            return ran
        return ran.filter(intervals.locate(ran.select(moment).to_series(), left_out).is_null())

    def _named(self) -> pl.DataFrame:
        """Number the kernels by their readable names, tell which exchange data, and return what they are called."""
        names = self._recording.names
        used = self._ran["name"].unique().sort()
        texts = names.gather(used)
        readable = demangle.names(texts.unique().to_list())
        text = texts.replace_strict(list(readable), list(readable.values()), return_dtype=pl.String)
        text = text.replace("", UNNAMED)
        different = text.unique(maintain_order=True)
        rows = pl.int_range(len(different), dtype=pl.UInt32, eager=True)
        kernel, exchange = text.replace_strict(different, rows, return_dtype=pl.UInt32), text.str.contains(EXCHANGES)
        # by row of the names, of which there are some hundred: millions of kernels are looked up there, not joined
        nowhere = pl.repeat(0, len(names), dtype=pl.UInt32, eager=True)
        place = nowhere.scatter(used, pl.int_range(len(used), eager=True)).gather(self._ran["name"])
        self._ran = self._ran.with_columns(
            kernel.gather(place).alias("kernel"),
            (exchange.gather(place) | (self._ran["type"] == int(Device.COMMUNICATION))).alias("exchange"),
        ).drop("type", "name")
        return pl.DataFrame({"name": different}).with_columns(
            pl.lit(None, pl.String).alias("type"), pl.lit(CORE).alias("core")
        )

    def _tasks(self, ran: pl.DataFrame) -> pl.DataFrame:
        return ran.select(
            _lane(self._several),
            self._kernels["name"].gather(ran["kernel"]),
            pl.lit(None, pl.String).alias("type"),
            pl.lit(CORE).alias("core"),
            pl.when("exchange").then(pl.lit("")).alias("group"),
            pl.lit(None, pl.String).alias("shapes"),
            "start_ns",
            "end_ns",
            "exchange",
            "launch_ns",
            pl.col("launch_ns").alias("driver_ns"),
        ).cast(tables.TASKS)

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
        """Return what the driver gave and took; what only says that there is a pool of memory is neither."""
        names = self._recording.names
        told = self._reserved.with_columns(
            names.gather(self._reserved["name"]), names.gather(self._reserved["detail"]).alias("detail")
        )
        return (
            told.filter(pl.col("detail").is_in([_ALLOCATES, _RELEASES]))
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


def held(reservations: pl.DataFrame) -> pl.DataFrame:
    """Return what the driver has given of a device's memory, each time that it gave or took, as `DEVICE_MEMORY`.

    reserved(t) = sum of the bytes given until t - sum of the bytes given back; where more was given back than had been
    given, as much was there before recording began: so it is what is known of, and at least that.

    Args:
        reservations: `tables.RESERVATIONS`.
    """
    on_device = reservations.filter(pl.col("name").is_in(_ON_DEVICE))
    given = pl.col("bytes").cast(pl.Int64) * pl.when("allocates").then(1).otherwise(-1)
    sums = on_device.with_columns(given.cum_sum().over("device").alias("reserved"))
    before = pl.col("reserved").min().over("device").clip(upper_bound=0)
    several = on_device["device"].n_unique() > 1
    component = pl.format("{} {}", pl.lit(COMPONENT), "device") if several else pl.lit(COMPONENT)
    return sums.select(
        component.alias("component"),
        "time_ns",
        pl.lit(None, pl.Int64).alias("allocated"),
        pl.col("reserved") - before,
        pl.lit(None, pl.Int64).alias("active"),
        pl.lit(None, pl.Int64).alias("stream"),
    ).cast(tables.DEVICE_MEMORY)


def _by_time(traced: Traced) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return the parts in order of start."""
    calls, ran, others = traced.calls, traced.ran.drop("detail"), traced.others
    del traced
    tables_of = [calls.get_columns(), ran.get_columns(), others.get_columns()]
    del calls, ran, others
    ordered = [_in_order(columns) for columns in tables_of]
    return ordered[0], ordered[1], ordered[2]


def _in_order(columns: list[pl.Series]) -> pl.DataFrame:
    """Return columns by `start_ns`; each is let go as soon as it is in order, so that no table is there twice.

    Args:
        columns: is changed.
    """
    starts = next(column for column in columns if column.name == "start_ns")
    order = starts.to_frame().select(pl.arg_sort_by("start_ns", maintain_order=True)).to_series()
    del starts
    for place, column in enumerate(columns):
        columns[place] = column.gather(order)
    return pl.DataFrame(columns)


def _of(found: pl.DataFrame, kinds: tuple[Device, ...]) -> pl.DataFrame:
    return found.filter(pl.col("type").is_in([int(kind) for kind in kinds]))


def _lane(several: bool) -> pl.Expr:
    """Return the number of the stream; of several devices each has streams of the same numbers."""
    lane = pl.col("device") * 2**16 + pl.col("stream") if several else pl.col("stream")
    return lane.cast(pl.UInt32).alias("stream")


def _calls(rows: pl.DataFrame, level: str, names: pl.Series) -> pl.DataFrame:
    """Return calls, or what has no thread, as `tables.DRIVER_CALLS`."""
    thread = pl.col("native_tid") if "native_tid" in rows.columns else pl.lit(0)
    return rows.select(
        pl.lit(level).alias("level"),
        _readable(names).gather(rows["name"]).alias("name"),
        "start_ns",
        "end_ns",
        thread.cast(pl.Int64).alias("thread"),
    )


def _summed(rows: pl.DataFrame, level: str, names: pl.Series) -> pl.DataFrame:
    """Return the sums of calls, as `operators.by_level` has them."""
    numbered = rows.select(pl.lit(level).alias("level"), "name", "start_ns", "end_ns")
    # part by part: squares are of 16 bytes
    sums = pl.concat([operators.by_level(part) for part in (numbered.head(0), *numbered.iter_slices(CHUNK))])
    # calls of several versions have one name
    named = sums.with_columns(_readable(names).gather(sums["name"]).alias("name"))
    return (
        named.group_by("level", "name")
        .agg(
            pl.col("count", "total_ns").sum(),
            pl.col("min_ns").min(),
            pl.col("max_ns").max(),
            pl.col("squares").sum(),
        )
        .select(sums.columns)
    )


def _readable(names: pl.Series) -> pl.Series:
    return names.str.replace(_VERSION.pattern, "")
