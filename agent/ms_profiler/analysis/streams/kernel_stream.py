"""Read the kernels that ran on the host, batch by batch, and keep as many rows as the timeline can show.

For each kernel, ms-profiler finds its step, its module, and the host span around it. All kernels count for the sums and
for the states of the steps. If there are more than `MOST` kernels, only the rows of the first, the slowest, the last
and some other steps are kept. `driver.thinning` chooses spans in the same way.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.driver import liveness
from ms_profiler.analysis.driver.thinning import kept_steps
from ms_profiler.analysis.metrics import (
    binding,
    graph_names,
    intervals,
    kernel_shares,
    kernels,
    launched,
    launched_steps,
    overlap,
    queued_steps,
    sampling,
)
from ms_profiler.analysis.metrics.communication import COLLECTIVES, called
from ms_profiler.analysis.metrics.graph_owners import Owner
from ms_profiler.analysis.metrics.kernels import HOST_CPU
from ms_profiler.analysis.metrics.phases import GRAPH_OWNERS
from ms_profiler.analysis.metrics.scopes import Part, Scope
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import graphs, kernel_windows as reader, tapes
from ms_profiler.store import layout
from ms_profiler.store.format import Category
from ms_profiler.store.reader import ReadCounts

#: approximate largest number of kernels whose rows are kept
MOST: Final = 500_000
#: smallest number of kernels in a batch; only the last batch may be smaller
BATCH: Final = 100_000

#: number of recorded windows whose kernel shapes are compared with the shapes in compiled graphs
COMPARED: Final = 2
#: A window is compared only if its file of executions has at most this many bytes. The file of some ten thousand
#: kernels is smaller. That is enough, because the first window has only one step.
COMPARED_BYTES: Final = 2_000_000

#: the reason why kernels have no module if their graph calls other graphs
_CALLS: Final = (
    "a compiled graph calls other graphs, as for `while` and `if` on values; MindSpore describes none of them"
)
#: categories of spans in which kernels run
_COMPUTING: Final = [int(category) for category in (*GRAPH_OWNERS, Category.GRAPH, Category.MODULE)]
_FOREVER: Final = 2**62
_PLACED: Final = ("kernel", "module", "part", "in_step")
_SUMMED: Final = pl.Schema([*tables.KERNELS.items(), ("in_step", pl.Boolean())])
COUNTS: Final = pl.Schema({"step": pl.UInt32(), "count": pl.UInt32()})
_KEPT: Final = pl.Schema([*tables.KERNELS.items(), ("queued", pl.UInt32())])
_BOUNDS: Final = pl.Schema(dict.fromkeys(intervals.BOUNDS, tables.KERNELS["start_ns"]))


@dataclass
class Stream:
    """The kernel stream of a run, and the states and times of steps that follow from it.

    Attributes:
        texts: the texts of modules and shapes; the recording's names come first, in their order.
        states: when the steps in `detailed` computed and communicated, from `metrics.overlap.states`.
        times: the time of each state in each recorded step, from `metrics.overlap.by_step`.
        table: the kernels of the detailed steps, with the columns of `tables.KERNELS`, by process, lane and start.
        queued: the step that queued each row of `table`, a row of the steps; null outside of all steps.
        names: table of kernel names, with the columns of `tables.KERNEL_NAMES`.
        sums: the times of all kernels by name and module, from `metrics.kernels.sum_up`. A kernel belongs to a step
            (`in_step`) if a recorded step queued it, or, for a device's tasks, launched it.
        unseen: those of `sums` whose modules were not recorded, because `overhead_budget` left out their steps, from
            `metrics.kernel_shares.sum_up`.
        sums_by_place: `count` and `total_ns` by `kernel`, `module`, `part`, `in_step` and `place`
            (`metrics.sampling.places`); None for a device's tasks, or without kernels.
        counts: the number of a device's tasks in each step, `step` (a row of the steps) and `count`; empty if unknown.
        detailed: numbers of the steps whose kernels `table` holds; None for all.
        covered: the intervals in which kernels of the stepping process were recorded, `start_ns` and `end_ns`.
        lost: the windows whose kernels could not be read, as entries of `summary.json`.
        decides: whether the states of the steps follow from the kernels, wherever kernels were recorded.
        bound: the operators and modules that launched a device's tasks, as `metrics.launched.BOUND`.
        owned: the step of each row of `bound`.
        moments: the result of `metrics.launched_steps.moments` if the kernels are a device's tasks; otherwise empty.
        during: the result of `metrics.launched_steps.spans` if the kernels are a device's tasks; otherwise empty.
    """

    texts: pl.Series
    states: pl.DataFrame
    times: pl.DataFrame
    table: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=tables.KERNELS))
    queued: pl.Series = field(default_factory=lambda: pl.Series("queued", dtype=pl.UInt32))
    names: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=tables.KERNEL_NAMES))
    sums: pl.DataFrame = field(default_factory=lambda: kernels.sum_up(pl.DataFrame(schema=_SUMMED)))
    unseen: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=kernel_shares.UNSEEN))
    sums_by_place: pl.DataFrame | None = None
    counts: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=COUNTS))
    detailed: list[int] | None = None
    covered: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=_BOUNDS))
    lost: list[dict[str, Any]] = field(default_factory=list)
    decides: bool = False
    bound: pl.DataFrame = field(default_factory=lambda: launched.unbound(0))
    owned: pl.Series = field(default_factory=lambda: pl.Series("step", dtype=pl.UInt32))
    moments: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=launched_steps.MOMENTS))
    during: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=launched_steps.SPANS))

    @cached_property
    def shared(self) -> tuple[pl.DataFrame, int]:
        """Return `sums` with the kernels of `unseen` shared among modules, from `metrics.kernel_shares.shared`."""
        return kernel_shares.shared(self.sums, self.unseen)

    @cached_property
    def of_steps(self) -> pl.DataFrame:
        """Return those of `sums` whose kernels belong to a step, so without those of an evaluation between steps."""
        return self.sums.filter("in_step")

    @property
    def count(self) -> int:
        """Return the number of kernels that were read."""
        return int(self.sums["count"].sum())


def collect(
    recording: tables.Recording, used: Steps, compute: pl.DataFrame, communicate: pl.DataFrame, restricted: bool
) -> Stream:
    """Read the kernels of the host, and compute the states of steps that ran on the processor.

    Args:
        recording: the run.
        used: the steps in use.
        compute: the intervals of the computing phases, for the time in which no kernels were recorded.
        communicate: the intervals of the communicating phases, for the time in which no kernels were recorded.
        restricted: whether to leave out kernels outside of the steps in use.
    """
    if not recording.windows:
        states = overlap.states(compute, communicate, used)
        return Stream(recording.names, states, overlap.by_step(states))
    within = (-_FOREVER, _FOREVER)
    if restricted:
        within = int(used.table["start_ns"][0]), int(used.table["end_ns"][-1])
    return _Intake(recording, used, compute, communicate, within).run()


class _Intake:
    """Reads the recorded windows of kernels one after the other, and collects the kernels."""

    def __init__(
        self,
        recording: tables.Recording,
        used: Steps,
        compute: pl.DataFrame,
        communicate: pl.DataFrame,
        within: tuple[int, int],
    ) -> None:
        self.recording, self.used, self.within = recording, used, within
        self.compute, self.communicate = compute, communicate
        self.called = called(recording, used)
        self.parts = sampling.windows(used, recording.spans)
        total = sum(map(reader.size, filter(self._touches, recording.windows))) // reader.EXECUTION_BYTES
        self.detailed = kept_steps(used.recorded, total, MOST) if total > MOST else None
        # if the job has an accelerator, kernels on the processor do not count as the computation of a step
        self.decides = recording.info.framework.get("device", "CPU").upper() in ("", "CPU")
        self.hosts = binding.Hosts(recording.spans, recording.names, used, tapes.read(recording, used.process))
        self.names: dict[str, int] = {}
        self.scopes: list[Scope] = []
        self.owners: dict[str, Owner] = {}
        self.texts = {text: row for row, text in enumerate(recording.names)}
        self.tables: list[pl.DataFrame] = []
        self.sums: list[pl.DataFrame] = []
        self.by_place: list[pl.DataFrame] = []
        self.states: list[pl.DataFrame] = []
        self.times: list[pl.DataFrame] = []
        self.covered: list[tuple[int, int]] = []
        self.lost: list[dict[str, Any]] = []

    def run(self) -> Stream:
        """Read all recorded windows of kernels, and return the stream."""
        for process, group in groupby(self.recording.windows, lambda window: window.process):
            self._process(process, list(group))
        if not self.states:
            self._measure(pl.DataFrame(schema=tables.KERNELS), (-_FOREVER, _FOREVER))
        rows = pl.concat(self.tables) if self.tables else pl.DataFrame(schema=_KEPT)
        rows = rows.sort("process", "lane", "start_ns", "kernel")
        return Stream(
            texts=pl.Series("text", list(self.texts), dtype=pl.String),
            states=pl.concat(self.states),
            times=overlap.add_up(self.times),
            table=rows.drop("queued"),
            queued=rows["queued"],
            names=pl.DataFrame(
                [(name, *self._described(row)) for name, row in self.names.items()],
                schema=tables.KERNEL_NAMES,
                orient="row",
            ),
            sums=kernels.add_up(self.sums) if self.sums else kernels.sum_up(pl.DataFrame(schema=_SUMMED)),
            sums_by_place=_added(self.by_place),
            detailed=None if self.detailed is None else self.detailed["number"].to_list(),
            covered=pl.DataFrame(self.covered, schema=_BOUNDS, orient="row"),
            lost=self.lost,
            decides=self.decides,
        )

    def _process(self, process: int, windows: list[tables.Window]) -> None:
        """Read the recorded windows of one process, and process them in batches of at least `BATCH` kernels."""
        self.owners = self._owned(process, [window for window in windows if self._touches(window)])
        pending: list[pl.DataFrame] = []
        since = -_FOREVER
        for window, following in zip(windows, [*windows[1:], None], strict=True):
            pending.append(self._read(window))
            if following is None or sum(frame.height for frame in pending) >= BATCH:
                until = _FOREVER if following is None else following.start_ns
                self._take(pl.concat(pending), (since, until), process == self.used.process)
                pending, since = [], until

    def _read(self, window: tables.Window) -> pl.DataFrame:
        """Return the kernels of a window, without steps and modules yet, and note lost kernels."""
        recording = self.recording
        executions = pl.DataFrame(schema=reader.EXECUTIONS)
        if self._touches(window):
            executions = reader.read(window, self.names, recording.clock, recording.counts)
            self._note(window, executions.height)
        for name in list(self.names)[len(self.scopes) :]:
            self.scopes.append(scope := self._scope(name))
            if scope.module is not None:
                self.texts.setdefault(scope.module, len(self.texts))
        shapes = pl.repeat(None, executions.height, dtype=pl.UInt32, eager=True)
        if not self._of_detailed(executions).is_empty():
            shapes = reader.shapes(window, executions, list(self.names), self.texts)
        return kernels.waits(executions.with_columns(shapes.alias("shapes"))).with_columns(
            process=pl.lit(window.process, pl.UInt32), window_ns=pl.lit(window.start_ns, pl.Int64)
        )

    def _owned(self, process: int, windows: list[tables.Window]) -> dict[str, Owner]:
        """Return for each kernel name in a process's compiled graphs the module that owns the kernel (its owner)."""
        found = graphs.read(layout.process_dir(self.recording.directory, process), self.recording.counts)
        if not found:
            return {}
        if not all(graph.whole for graph in found):
            self.recording.info.not_collected.append({"what": "modules of kernels", "why": _CALLS})
        seen: set[str] = set()
        ran: dict[str, set[str]] = {}
        compared = 0
        for window in windows:
            seen |= (named := reader.names(window))
            if named and compared < COMPARED and reader.size(window) <= COMPARED_BYTES:
                compared += 1
                for name, shapes in self._shapes(window):
                    ran.setdefault(name, set()).add(shapes)
        spans = self.recording.spans
        rows = spans.filter(pl.col("category") == int(Category.MODULE))["name"].unique()
        return graph_names.owners(found, seen, ran, set(self.recording.names.gather(rows)))

    def _shapes(self, window: tables.Window) -> Iterator[tuple[str, str]]:
        """Yield (kernel name, shapes of its operands) for a recorded window, each pair once."""
        names: dict[str, int] = {}
        texts: dict[str, int] = {}
        read = reader.read(window, names, self.recording.clock, ReadCounts())
        rows = read.select("kernel", reader.shapes(window, read, list(names), texts).alias("shapes")).unique()
        known, lines = list(names), list(texts)
        for kernel, shapes in rows.drop_nulls().iter_rows():
            yield known[kernel], lines[shapes]

    def _scope(self, name: str) -> Scope:
        """Return the scope in a kernel's name, with the module of the kernel's owner, or without a module.

        The module in the kernel's name is unreliable: if several cells are equal, MindSpore gives all of them the scope
        of the first cell.
        """
        scope = Scope.of(name)
        owner = self.owners.get(name)
        if owner is None:
            # without the graph, a recomputation has the same name as the first forward pass
            part = Part.UNKNOWN if scope.part == Part.RECOMPUTE else scope.part
            return scope if part == Part.OPTIMIZER else replace(scope, module=None, kind=None, part=part)
        if owner.module is None and scope.part == Part.OPTIMIZER:
            return scope
        kind = scope.kind if owner.named else None
        return replace(scope, module=owner.module or None, kind=kind, named=owner.named, part=owner.part or scope.part)

    def _note(self, window: tables.Window, count: int) -> None:
        """Note whether a window was written completely.

        If a window has no file, it is complete only if nothing was computed in it.
        """
        processes = self.recording.processes
        state = processes.row(by_predicate=pl.col("process") == window.process, named=True)["state"]
        # if the process was killed, `drained` is unreliable; MindSpore writes no file for a window without kernels
        nothing = not liveness.is_killed(state) and window.drained == 0 and reader.empty(window)
        whole = window.ended and (count > 0 or nothing or not self._computed(window))
        if whole or (count > 0 and reader.written(window)):
            if window.process == self.used.process:
                self.covered.append((window.start_ns, window.end_ns))
            return
        start = min(processes["first_ns"].to_list())
        rest = f"of which {count} could be read" if count else "none of which could be read"
        if state == liveness.RUNNING and not window.ended:
            rest = "not written out yet"
        self.lost.append(
            {
                "pid": window.process,
                "what": f"kernels of window {window.index}, {rest}",
                "from_s": round((window.start_ns - start) / 1e9, 6),
                "to_s": round((window.end_ns - start) / 1e9, 6),
                "records": 0,
            }
        )

    def _computed(self, window: tables.Window) -> bool:
        inside = self.recording.spans.filter(
            pl.col("process") == window.process,
            pl.col("start_ns").is_between(window.start_ns, window.end_ns),
            pl.col("category").is_in(_COMPUTING),
        )
        return not inside.is_empty()

    def _take(self, executions: pl.DataFrame, between: tuple[int, int], own: bool) -> None:
        """Find step and module of the kernels of one batch, and add the kernels to the sums."""
        inside = executions.filter(pl.col("start_ns") >= self.within[0], pl.col("start_ns") < self.within[1])
        # If the schedule leaves out a step, the step may still have kernels, because a profiler of the script requested
        # them. They do not count.
        left_out = self.used.table.filter(pl.col("content") == tables.TIMES_ALONE)
        inside = inside.filter(intervals.locate(inside["start_ns"], left_out).is_null())
        placed = self.hosts.bind(inside, self.scopes, self.texts)
        queued = pl.repeat(None, placed.height, dtype=pl.UInt32, eager=True)
        if own:  # the steps are those of one process; kernels of others are outside of all steps
            queued = queued_steps.of(placed, self.recording.spans, self.used)
        recorded = self.used.table["recorded"].gather(queued).fill_null(False)
        placed = placed.with_columns(queued.alias("queued"), in_step=recorded)
        self.sums = [kernels.add_up([*self.sums, kernels.sum_up(placed)])]
        place = sampling.places(placed, self.used, self.parts)
        self.by_place.append(
            placed.group_by(*_PLACED, place).agg(pl.len().alias("count"), pl.col("duration_ns").sum().alias("total_ns"))
        )
        rows = self._of_detailed(placed).with_columns(pl.lit(None, pl.Int64).alias("launch_ns"))
        self.tables.append(rows.select(_KEPT.names()))
        if own:
            self._measure(placed, between)

    def _measure(self, placed: pl.DataFrame, between: tuple[int, int]) -> None:
        """Compute the states of the steps between two times."""
        compute, communicate = intervals.clip(self.compute, *between), self.communicate
        if self.decides:
            runs = placed.select(
                "start_ns",
                (pl.col("start_ns") + pl.col("duration_ns")).alias("end_ns"),
                exchange=pl.Series([scope.type in COLLECTIVES for scope in self.scopes], dtype=pl.Boolean).gather(
                    placed["kernel"]
                ),
            )
            covered = pl.DataFrame(self.covered, schema=_BOUNDS, orient="row")
            elsewhere = intervals.subtract(compute, covered)
            computed = runs.filter(~pl.col("exchange")).select(intervals.BOUNDS)
            compute = intervals.union(pl.concat([computed, elsewhere]))
            # An exchange with a kernel lasts as long as the kernel. A call without a kernel exchanged the data itself.
            direct = self.called.filter(~pl.col("row").is_in(placed["launch"].drop_nulls().implode()))
            exchanged = pl.concat([runs.filter("exchange").select(intervals.BOUNDS), direct.select(intervals.BOUNDS)])
            communicate = intervals.union(pl.concat([exchanged, intervals.subtract(communicate, covered)]))
        states = overlap.states(compute, communicate, self.used, between)
        self.times.append(overlap.sum_up(states))
        self.states.append(self._of_detailed(states))

    def _described(self, row: int) -> tuple[str, str, str, str | None, str | None]:
        scope = self.scopes[row]
        return scope.type, HOST_CPU, scope.path, scope.module, scope.kind

    def _touches(self, window: tables.Window) -> bool:
        return window.start_ns < self.within[1] and window.end_ns > self.within[0]

    def _of_detailed(self, frame: pl.DataFrame) -> pl.DataFrame:
        if self.detailed is None:
            return frame
        return frame.filter(intervals.locate(frame["start_ns"], self.detailed).is_not_null())


def _added(sums: list[pl.DataFrame]) -> pl.DataFrame | None:
    return pl.concat(sums).group_by(*_PLACED, "place").agg(pl.all().sum()) if sums else None
