"""Turn the tasks of a device into a `Stream`, the class that also holds the kernels of the host."""

from dataclasses import dataclass, field

import polars as pl

from ms_profiler.analysis.columns import COLUMNS
from ms_profiler.analysis.metrics import device_steps, intervals, kernel_shares, kernels, launched, messages
from ms_profiler.analysis.metrics.binding import Bound
from ms_profiler.analysis.metrics.scopes import Part
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.streams.device_time import LAUNCHED, DeviceTime
from ms_profiler.analysis.streams.kernel_stream import COUNTS, Stream
from ms_profiler.store.format import Category

#: number of tasks in one batch, if ms-profiler's own tracing recorded them
PART = 200_000

_NAME = ["name", "type", "core"]
#: categories of spans that tell the part of a step
_PHASES = [int(kind) for kind in (Category.FORWARD, Category.BACKWARD, Category.OPTIMIZER)]


def collect(recording: tables.Recording, device: tables.Device, whole: Steps, used: Steps) -> Stream:
    """Return the kernel stream of a device's tasks, with the states of the steps.

    In the result, `sums` leaves out exchanges, as the tables of the recording tools do. If ms-profiler's own tracing
    recorded the tasks, `sums` covers all tasks. But then `table` may hold only the tasks of some steps
    (`Device.within`).

    Args:
        recording: the run.
        device: the device whose tasks are returned.
        whole: the steps of the run.
        used: the selected steps, all or some of `whole`.
    """
    texts, names, runs = _numbered(recording, device)
    time = DeviceTime(device, runs, whole, recording.names.gather(recording.spans["name"]))
    taken = _Taken(recording, device, time, _Choice(whole, used), _Blind.of(recording, whole), used.process, texts)
    for part in device_steps.parts(runs, PART) if device.whole is not None else iter([runs]):
        taken.take(part if device.whole is None else _widened(part))
    del runs
    COLUMNS.trim()
    time.end()
    choice = taken.choice
    table = pl.concat(taken.kernels).sort("process", "lane", "start_ns", "kernel")
    return Stream(
        texts=pl.Series("text", texts, dtype=pl.String),
        states=choice.of(time.states()),
        times=choice.of(time.times()),
        moments=choice.of(time.moments()),
        during=choice.of(time.spans),
        table=table,
        queued=table["step"],
        names=names.select(
            pl.col("name").alias("full_name"),
            "type",
            "core",
            pl.lit("").alias("scope"),
            pl.lit(None, pl.String).alias("module"),
            pl.lit(None, pl.String).alias("class"),
        ),
        sums=kernels.add_up(taken.sums),
        unseen=kernel_shares.add_up(taken.unseen),
        counts=pl.concat(taken.counts).group_by("step").agg(pl.col("count").sum()).sort("step"),
        detailed=None if device.within is None else device.within["number"].to_list(),
        decides=True,
        bound=pl.concat(taken.bound),
        owned=pl.concat(taken.owned),
    )


def _numbered(recording: tables.Recording, device: tables.Device) -> tuple[list[str], pl.DataFrame, pl.DataFrame]:
    """Return a list of texts, a table of kernels (`name`, `type`, `core`), and a table of tasks.

    In the table of tasks, `kernel` is a row of the kernels, and `shapes` is a row of the texts.
    """
    texts = [*recording.names, *launched.optimizers(recording)]
    if device.whole is not None:
        names = device.whole.kernels.with_columns(pl.coalesce("type", "name").alias("type"))
        if device.within is not None:
            return texts, names, device.whole.take_runs()
        different, shapes = _shapes(device, len(texts))
        return [*texts, *different], names, device.whole.runs.with_columns(shapes)
    # if the type of a task is unknown, its name is used as the type
    tasks = device.tasks.with_columns(pl.coalesce("type", "name").alias("type"))
    if device.launches is not None:
        tasks = tasks.with_columns(device.launches["thread"])
    elif device.callers is not None:
        tasks = tasks.with_columns(device.callers.alias("thread"))
    names = tasks.select(_NAME).unique(maintain_order=True)
    numbered = tasks.join(names.with_row_index("kernel"), on=_NAME, how="left", maintain_order="left")
    different, shapes = _shapes(device, len(texts))
    return [*texts, *different], names, numbered.with_columns(shapes)


def _widened(runs: pl.DataFrame) -> pl.DataFrame:
    """Return tasks of `Whole.runs` with the types of `tables.RUNS` and with `shapes`, which is null if unknown."""
    shapes = runs["shapes"] if "shapes" in runs.columns else pl.lit(None, pl.UInt32).alias("shapes")
    return runs.select(*(pl.col(name).cast(kind) for name, kind in tables.RUNS.items()), shapes)


def _shapes(device: tables.Device, first: int) -> tuple[pl.Series, pl.Series]:
    """Return the distinct shapes, and for each task the number of its shapes, counted from `first`."""
    shapes = device.tasks["shapes"]
    different = shapes.drop_nulls().unique(maintain_order=True)
    rows = pl.int_range(first, first + len(different), dtype=pl.UInt32, eager=True)
    return different, shapes.replace_strict(different, rows, default=None, return_dtype=pl.UInt32)


@dataclass(frozen=True)
class _Blind:
    """The steps whose operators and modules are unknown, because they were not sampled or do not fit into memory.

    Attributes:
        steps: their intervals, sorted by time, and `parts`: whether the parts of the step, such as its forward pass,
            are known.
    """

    steps: pl.DataFrame

    @classmethod
    def of(cls, recording: tables.Recording, whole: Steps) -> "_Blind":
        """Find these steps in a run.

        Args:
            recording: the run.
            whole: the steps of the run.
        """
        unknown = pl.col("content") == tables.COARSE
        if recording.detailed is not None:
            unknown |= ~pl.col("number").is_in(recording.detailed)
        steps = whole.table.filter(unknown).select(intervals.BOUNDS)
        phases = recording.spans.filter(pl.col("process") == whole.process, pl.col("category").is_in(_PHASES))
        rows = intervals.locate(phases["start_ns"], steps).drop_nulls().unique()
        return cls(steps.with_columns(parts=pl.int_range(pl.len(), dtype=pl.UInt32).is_in(rows.implode())))

    def forget(self, tasks: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return tasks without the modules that are known only in part, and those whose modules are unknown.

        Outside of the detailed steps, only the outermost modules stay in memory. They do not tell a task's module.

        Args:
            tasks: `launch_ns`, `module`, `bound`, `part` and other columns.
        """
        place = intervals.locate(tasks["launch_ns"], self.steps)
        blind = place.is_not_null() & (tasks["part"] != int(Part.OPTIMIZER))
        cleared = tasks.with_columns(
            module=pl.when(~blind).then("module"),
            bound=pl.when(blind).then(pl.lit(int(Bound.NOTHING), tasks.schema["bound"])).otherwise("bound"),
        )
        parts = self.steps["parts"].gather(place).fill_null(True)
        unseen = cleared.with_columns(part=pl.when(parts | (pl.col("part") != int(Part.UNKNOWN))).then("part"))
        return cleared, unseen.filter(blind)


class _Choice:
    """The steps that are selected from all steps of the run."""

    def __init__(self, whole: Steps, used: Steps) -> None:
        chosen = whole.table["number"].is_in(used.table["number"].implode())
        self.all = bool(chosen.all())
        self._rows = pl.select(pl.when(chosen).then(chosen.cum_sum() - 1).cast(pl.UInt32)).to_series()

    def rows(self, steps: pl.Series) -> pl.Series:
        """Turn rows of all steps into rows of the selected steps; null for steps that were not selected."""
        return self._rows.gather(steps).alias("step")

    def of(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of a table that belong to the selected steps."""
        if self.all:
            return table
        return table.with_columns(self.rows(table["step"])).filter(pl.col("step").is_not_null())


@dataclass
class _Taken:
    """The sums and the rows of the tasks that were read so far.

    Attributes:
        texts: the texts to which the tasks' modules and shapes refer by row.
        sums: the times of the tasks by name and module, from `kernels.sum_up`.
        unseen: the times of tasks in the steps of `blind`, from `kernel_shares.sum_up`.
        kernels: the tasks that are kept one by one, with the columns of `tables.KERNELS`.
        bound: what launched each of these kernels, with the columns of `launched.BOUND`, sorted by start.
        owned: the step of each row of `kernels`.
        counts: the number of tasks in each step, with the columns of `kernel_stream.COUNTS`.
    """

    recording: tables.Recording
    device: tables.Device
    time: DeviceTime
    choice: _Choice
    blind: _Blind
    process: int
    texts: list[str]
    sums: list[pl.DataFrame] = field(default_factory=list)
    unseen: list[pl.DataFrame] = field(default_factory=list)
    kernels: list[pl.DataFrame] = field(default_factory=list)
    bound: list[pl.DataFrame] = field(default_factory=list)
    owned: list[pl.Series] = field(default_factory=list)
    counts: list[pl.DataFrame] = field(default_factory=lambda: [pl.DataFrame(schema=COUNTS)])
    _launches: launched.Launches | None = None
    _last_ns: int | None = None
    _last_in: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        device = self.device
        if device.whole is not None or device.launches is not None or device.callers is not None:
            self._launches = launched.Launches(self.recording, self.process, self.texts)

    def take(self, part: pl.DataFrame) -> None:
        """Add the next part of the tasks. Parts come in order of time, and no task is in two parts."""
        bound = launched.unbound(part.height) if self._launches is None else self._launches.bind(part)
        steps = self.time.owners(part)
        own, detailed = self.choice.rows(steps), self._details(part)
        self.counts.append(own.drop_nulls().value_counts().cast(COUNTS))
        tasks = pl.concat([part, bound], how="horizontal")
        duration = pl.col("end_ns") - pl.col("start_ns")
        placed, unseen = self.blind.forget(tasks.with_columns(own, duration_ns=duration, in_step=own.is_not_null()))
        self.time.take(placed.with_columns(steps))
        self.bound.append(bound.filter(detailed))
        self.owned.append(own.filter(detailed))
        waited = self._chosen(self._waited(placed))
        summed = waited.filter(~pl.col("exchange"))
        self.sums = [kernels.add_up([*self.sums, kernels.sum_up(summed)])]
        self.unseen.append(kernel_shares.sum_up(self._chosen(unseen.filter(~pl.col("exchange")))))
        named = waited.filter(self._details(waited)).with_columns(
            pl.col("stream").alias("lane"), pl.lit(self.process, pl.UInt32).alias("process")
        )
        self.kernels.append(named.select(tables.KERNELS.names()).cast(tables.KERNELS))

    def _chosen(self, tasks: pl.DataFrame) -> pl.DataFrame:
        """Return the tasks of the selected steps."""
        return tasks if self.choice.all else tasks.drop_nulls("step")

    def _waited(self, tasks: pl.DataFrame) -> pl.DataFrame:
        if self.device.form in LAUNCHED:
            waited = kernels.waits_in_stream(tasks, self._last_in)
            self._last_in |= dict(waited.group_by("stream").agg(pl.col("end_ns").max()).iter_rows())
            return waited
        waited = kernels.waits_on_device(tasks, self._last_ns)
        self._last_ns = int(waited["end_ns"][-1]) if waited.height else self._last_ns
        return waited

    def _details(self, tasks: pl.DataFrame) -> pl.Series:
        """Return for each task whether `Device` holds its details, Boolean."""
        if self.device.within is None:
            return pl.repeat(True, tasks.height, eager=True)
        return intervals.locate(_moments(tasks), self.device.within).is_not_null()


def _moments(tasks: pl.DataFrame) -> pl.Series:
    """Return the time of each task's launch, or of its begin if the launch is unknown."""
    return tasks.select(pl.coalesce("launch_ns", "start_ns").alias("moment")).to_series()


def calls(device: tables.Device, stream: Stream) -> pl.DataFrame:
    """Return the exchanges in the steps, with the columns of `communication.calls`; unknown numbers of bytes are 0.

    Args:
        device: the device that exchanged data.
        stream: the kernel stream of the device, from `collect`.
    """
    tasks = device.tasks.with_columns(stream.owned, called=pl.lit(None, pl.String), bytes=pl.lit(None, pl.Int64))
    also = []
    if device.exchanged is not None:
        tasks = tasks.with_columns(device.exchanged, called=device.exchanged["purpose"])
        also = ["ranks", "size", "dtype"]
    if device.launches is not None:
        tasks = tasks.with_columns(device.launches["bytes"])
    return (
        tasks.filter("exchange")
        .with_columns(pl.int_range(pl.len()).over("group").alias("number"))
        .filter(pl.col("step").is_not_null())
        .select(
            pl.coalesce("called", "name").alias("operation"),
            "group",
            "number",
            pl.col("bytes").fill_null(0),
            *intervals.BOUNDS,
            "step",
            *(pl.lit(None, kind).alias(name) for name, kind in messages.PEERS.items()),
            *also,
        )
    )
