"""What an accelerator did, in the tables that our own kernel stream fills: from tasks to a stream."""

from dataclasses import dataclass, field

import polars as pl

from ms_profiler.analysis import tables
from ms_profiler.analysis.kernels import Stream
from ms_profiler.analysis.metrics import device_steps, intervals, kernels, launched, overlap
from ms_profiler.analysis.metrics.steps import Steps

#: tasks of our own tracing that are looked at at once
PART = 500_000

_NAME = ["name", "type", "core"]


def collect(
    recording: tables.Recording, device: tables.Device, used: Steps, during: pl.DataFrame, restricted: bool
) -> Stream:
    """Return the tasks of a device as a kernel stream, and the steps as they show them.

    A task belongs to the step in whose window (see `device_steps.windows`) it starts, and one that our own tracing
    recorded to the step that launched it. `sums` are over the tasks that exchange nothing, as in the tables of the
    tools that record them. Of our own tracing all tasks are summed up, part by part, and those are kept whose details
    the device has.

    Args:
        recording: the run.
        device: its tasks.
        used: the steps in use.
        during: of `device_steps.windows`.
        restricted: keep to the time of the steps in use.
    """
    texts, names, runs = _numbered(recording, device)
    taken = _Taken(recording, device, used, during, restricted)
    for part in device_steps.parts(runs, PART) if device.whole is not None else iter([runs]):
        taken.take(part)
    return Stream(
        texts=pl.Series("text", texts, dtype=pl.String),
        states=pl.concat(taken.states),
        times=taken.times(),
        table=pl.concat(taken.kept).sort("process", "lane", "start_ns", "kernel"),
        names=names.select(
            pl.col("name").alias("full_name"),
            "type",
            "core",
            pl.lit("").alias("scope"),
            pl.lit(None, pl.String).alias("module"),
            pl.lit(None, pl.String).alias("class"),
        ),
        sums=kernels.add_up(taken.sums),
        detailed=None if device.within is None else device.within["number"].to_list(),
        decides=True,
        bound=pl.concat(taken.bound),
    )


def _numbered(recording: tables.Recording, device: tables.Device) -> tuple[list[str], pl.DataFrame, pl.DataFrame]:
    """Return texts, kernels by name, type and core, and the tasks with `kernel` and `shapes`, rows of these."""
    texts = recording.names.to_list()
    if device.whole is not None:
        names = device.whole.kernels.with_columns(pl.coalesce("type", "name").alias("type"))
        if device.within is not None:
            return texts, names, device.runs.with_columns(pl.lit(None, pl.UInt32).alias("shapes"))
        different, shapes = _shapes(device, len(texts))
        return [*texts, *different], names, device.runs.with_columns(shapes)
    # where no type is known the name stands for it
    tasks = device.tasks.with_columns(pl.coalesce("type", "name").alias("type"))
    names = tasks.select(_NAME).unique(maintain_order=True)
    numbered = tasks.join(names.with_row_index("kernel"), on=_NAME, how="left", maintain_order="left")
    different, shapes = _shapes(device, len(texts))
    return [*texts, *different], names, numbered.with_columns(shapes)


def _shapes(device: tables.Device, first: int) -> tuple[pl.Series, pl.Series]:
    """Return the different shapes of the tasks, and which each has, numbered from `first` on."""
    shapes = device.tasks["shapes"]
    different = shapes.drop_nulls().unique(maintain_order=True)
    rows = pl.int_range(first, first + len(different), dtype=pl.UInt32, eager=True)
    return different, shapes.replace_strict(different, rows, default=None, return_dtype=pl.UInt32)


@dataclass
class _Taken:
    """What was taken of the tasks so far.

    Attributes:
        sums: of `kernels.sum_up`.
        kept: `tables.KERNELS`.
        states: of the tasks that are kept.
        bound: `launched.BOUND`, of these, by start.
    """

    recording: tables.Recording
    device: tables.Device
    used: Steps
    during: pl.DataFrame
    restricted: bool
    sums: list[pl.DataFrame] = field(default_factory=list)
    kept: list[pl.DataFrame] = field(default_factory=list)
    states: list[pl.DataFrame] = field(default_factory=list)
    bound: list[pl.DataFrame] = field(default_factory=list)
    _times: list[pl.DataFrame] = field(default_factory=list)
    _launches: launched.Launches | None = None
    _last_ns: int | None = None
    _busy_ns: int | None = None

    def __post_init__(self) -> None:
        if self.device.whole is not None:
            self._launches = launched.Launches(self.recording, self.used.process)

    def take(self, part: pl.DataFrame) -> None:
        """Take some tasks that nothing runs across the ends of."""
        bound = launched.unbound(part.height) if self._launches is None else self._launches.bind(part)
        placed = pl.concat([part, bound], how="horizontal").with_columns(
            _step(self.device, part, self.used, self.during)
        )
        self.bound.append(bound.filter(self._details(part)))
        tasks = placed.filter(pl.col("step").is_not_null()) if self.restricted else placed
        timed = tasks.with_columns(duration_ns=pl.col("end_ns") - pl.col("start_ns"))
        waited = kernels.waits_on_device(timed, self._last_ns)
        self._last_ns = int(waited["end_ns"][-1]) if waited.height else self._last_ns
        summed = kernels.sum_up(waited.filter(~pl.col("exchange")))
        self.sums = [kernels.add_up([*self.sums, summed])]
        named = waited.filter(self._details(waited)).with_columns(
            pl.col("stream").alias("lane"), pl.lit(self.used.process, pl.UInt32).alias("process")
        )
        self.kept.append(named.select(tables.KERNELS.names()).cast(tables.KERNELS))
        self._measure(tasks)

    def _measure(self, tasks: pl.DataFrame) -> None:
        if self.device.form == tables.Form.MS_PROFILER:
            computed, exchanged = (intervals.union(tasks.filter(kind)) for kind in (~pl.col("exchange"), "exchange"))
            self.states.append(overlap.states(computed, exchanged, self.used))
            self._times.append(overlap.by_step(self.states[-1]))
            return
        pieces = device_steps.states(tasks, self._busy_ns)
        self._busy_ns = int(pieces["end_ns"][-1]) if pieces.height else self._busy_ns
        shown = pieces
        if self.device.within is not None:
            # what they ran in, which may be long after they were launched
            numbers = self.used.table["number"].gather(self.during["step"])
            kept = self.during.filter(numbers.is_in(self.device.within["number"].implode()))
            shown = pieces.filter(intervals.locate(pieces["start_ns"], kept).is_not_null())
        self.states.append(shown)
        if self.device.whole is None:
            self._times.append(device_steps.by_step(pieces, tasks, self.during, self.device.form))
            return
        told = self.device.whole.kernels["name"].gather(tasks["kernel"])
        if self.device.form == tables.Form.CUPTI:
            # NCCL has one kernel for many purposes: the call that launched it tells
            told = self.recording.names.gather(self.recording.spans["name"].gather(tasks["launch"]))
        bubbles = device_steps.bubbles(told, self.device.form).alias("bubble")
        self._times.append(device_steps.sum_up(pieces, tasks.with_columns(bubbles), self.during))

    def times(self) -> pl.DataFrame:
        """Return the steps as the tasks show them."""
        return self._times[0] if self.device.whole is None else device_steps.add_up(self._times, self.during)

    def _details(self, tasks: pl.DataFrame) -> pl.Series:
        """Tell which tasks the device has the details of."""
        if self.device.within is None:
            return pl.repeat(True, tasks.height, eager=True)
        return intervals.locate(_moments(tasks), self.device.within).is_not_null()


def _moments(tasks: pl.DataFrame) -> pl.Series:
    """Return when tasks were launched, as far as that is known, or else began."""
    return tasks.select(pl.coalesce("launch_ns", "start_ns").alias("moment")).to_series()


def _step(device: tables.Device, tasks: pl.DataFrame, used: Steps, during: pl.DataFrame) -> pl.Series:
    """Return the step of each task: where its launch is known, the one in which that was."""
    by_start = during["step"].gather(intervals.locate(tasks["start_ns"], during))
    if device.whole is not None:
        known = used.table.with_row_index("step").filter("recorded")
        by_launch = known["step"].gather(intervals.locate(tasks["launch_ns"], known))
        by_start = by_launch.zip_with(tasks["launch_ns"].is_not_null(), by_start)
    return by_start.alias("step")


def calls(device: tables.Device, during: pl.DataFrame) -> pl.DataFrame:
    """Return the exchanges in the steps, with the columns of `communication.calls`; bytes are not known.

    Args:
        device: its tasks.
        during: of `device_steps.windows`.
    """
    exchanges = device.tasks.filter("exchange")
    rows = intervals.locate(exchanges["start_ns"], during)
    return (
        exchanges.with_columns(during["step"].gather(rows).alias("step"))
        .with_columns(pl.int_range(pl.len()).over("group").alias("number"))
        .filter(pl.col("step").is_not_null())
        .select(
            pl.col("name").alias("operation"),
            "group",
            "number",
            pl.lit(0, pl.Int64).alias("bytes"),
            *intervals.BOUNDS,
            "step",
        )
    )
