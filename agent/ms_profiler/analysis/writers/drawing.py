"""Decide which events of a run a timeline shows, and in which lanes, for all forms of the timeline."""

from functools import cached_property
from typing import Final

import polars as pl

from ms_profiler.analysis.columns import COLUMNS
from ms_profiler.analysis.driver.sections import Section
from ms_profiler.analysis.metrics import (
    host_operators,
    intervals,
    messages,
    overlap,
    scopes,
    stretches,
)
from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.analysis.metrics.operands import TIE
from ms_profiler.analysis.writers.communication_json import by_call
from ms_profiler.analysis.writers.lanes import Lanes, copies, marks
from ms_profiler.store.format import Category

#: columns that identify a span
_KEYS: Final = ["process", "thread", "category", "name", "start_ns", "end_ns"]


class Drawing:
    """The events of one section of a timeline. A section is a part of the run's time.

    Most tables, such as the kernels, are not divided: all their rows are drawn with the first section.

    Attributes:
        measures: the measures of the run.
        section: the section of the run.
        scopes: the scopes of kernels (prefixes of their names), from `scopes.runs`, one lane per depth.
        owners: the intervals of passes (such as forward) and of modules, from `owner_lanes.lanes`, one lane per depth.
        stacks: the Python stacks, from `Stacks.lanes`, one lane per thread.
        lanes: all lanes of the timeline.
        steps: `number`, `start_ns`, `end_ns`, `duration_ns`, in the lane of the steps.
        spans: the spans as `tables.UNNESTED`, in the lanes of their threads.
        instants: the instants as `tables.INSTANTS`, in the lanes of their threads.
        counters: the counters as `tables.COUNTERS`, beside the lanes of their threads.
        kernels: the kernels as `tables.KERNELS`, in their own lanes. `id` is the number of the flow to the kernel.
    """

    def __init__(self, measures: Measures, section: Section, exchanges: pl.DataFrame | None = None) -> None:
        """Collect the events.

        Args:
            measures: the measures of the run.
            section: the section of the run.
            exchanges: exchanges with other ranks, with the columns of `communication`. If given, they are drawn instead
                of the exchanges in the recording.
        """
        self.measures, self.section, self.exchanges = measures, section, exchanges
        main = measures.stream.table.filter(pl.col("process") == measures.steps.process)
        self.scopes = scopes.runs(main, measures.stream.names)
        self.owners = measures.owner_lanes
        depths = self.scopes["depth"].n_unique(), self.owners["depth"].n_unique()
        self.stacks, labels = measures.stacks.lanes
        groups = (measures.calls if exchanges is None else exchanges)["group"].unique(maintain_order=True)
        self.lanes = Lanes.of(measures, *depths, labels, groups.to_list())
        self.steps = measures.steps.recorded
        self.spans = section.spans
        self.instants = self._during(messages.drawn(measures.recording))
        self.counters = self._during(measures.recording.counters)
        self.kernels = measures.stream.table.with_row_index("id")

    def _during(self, moments: pl.DataFrame) -> pl.DataFrame:
        """Return the moments, `time_ns`, from the first to the last chosen step."""
        if self.measures.chosen is None:
            return moments
        steps = self.measures.steps.table
        return moments.filter(pl.col("time_ns").is_between(steps["start_ns"][0], steps["end_ns"][-1]))

    @cached_property
    def overlap(self) -> pl.DataFrame:
        """Return the intervals of the lanes of the overlap analysis: `lane`, `start_ns`, `end_ns`."""
        return overlap.lanes(self.measures.states)

    @cached_property
    def whole(self) -> pl.DataFrame:
        """Return the parts of the run, such as its steps: `lane` (one per process), `part`, `start_ns`, `end_ns`."""
        parts = stretches.parts(self.measures.stretches)
        if self.measures.chosen is not None:
            steps = self.measures.steps.table
            parts = intervals.clip(parts, steps["start_ns"][0], steps["end_ns"][-1])
        lanes = self.lanes.whole
        lane = parts["process"].replace_strict(lanes, range(len(lanes)), return_dtype=pl.UInt32)
        return parts.select(lane.alias("lane"), "part", "start_ns", "end_ns")

    @cached_property
    def copies(self) -> pl.DataFrame:
        """Return the copies and sets of a device's memory: `process`, `lane`, `name`, `bytes`, `start_ns`, `end_ns`."""
        return copies(self.measures)

    @cached_property
    def marks(self) -> pl.DataFrame:
        """Return the markers on streams of a device: `process`, `lane`, `name`, `domain`, `start_ns`, `end_ns`."""
        return marks(self.measures)

    @property
    def curves(self) -> pl.DataFrame:
        """Return the curves beside the lanes of a device, such as its memory: `name`, `time_ns`, `value`."""
        curves = self.measures.curves
        return curves if self.lanes.device and self.section.first else curves.clear()

    @cached_property
    def communication(self) -> pl.DataFrame:
        """Return the exchanges with other ranks: `name`, `group`, `start_ns`, `end_ns`, `bytes`; a lane per group."""
        if self.exchanges is not None:
            return self.exchanges if self.section.first else self.exchanges.clear()
        calls = self.measures.calls
        names = calls["operation"].to_list()
        if not self.measures.recording.foreign:
            names = [call["name"].rpartition("@")[0] for call in by_call(self.measures)]
        return calls.select(pl.Series("name", names, dtype=pl.String), "group", "start_ns", "end_ns", "bytes")

    @cached_property
    def ties(self) -> pl.DataFrame:
        """Return the flows from operators to the operators that compute their gradients: `id`, `source`, `target`.

        `source` and `target` are rows in `spans`. Each flow needs its own id. So the ids are larger than those of flows
        to kernels, and than those of gradients in earlier sections.
        """
        operators = self.section.operators.filter(TIE > 0)
        pairs = host_operators.ties(operators)
        return pairs.select(
            id=pl.col("forward").cast(pl.Int64) + self.kernels.height + self.section.before,
            source=self._rows(operators, pairs["forward"]),
            target=self._rows(operators, pairs["backward"]),
        )

    @property
    def tie_ends(self) -> pl.DataFrame:
        """Return both ends of the flows to gradients (`ties`): `end`, `id`, `process`, `thread`, `start_ns`.

        `end` is "s" at the source and "f" at the target. All sources come before all targets.
        """
        spans, ties = self.spans.select("process", "thread", "start_ns"), self.ties
        sides = (("s", "source"), ("f", "target"))
        return pl.concat(spans[ties[side]].with_columns(ties["id"], end=pl.lit(end)) for end, side in sides)

    @cached_property
    def launched(self) -> pl.DataFrame:
        """Return the kernels to which flows lead: `id` and `launch` as in `kernels`, `target` (row in `kernels`)."""
        known = self.kernels.with_row_index("target").filter(pl.col("launch").is_not_null())
        drawn = self.measures.drawn.gather(known["launch"]).is_not_null()
        return known.filter(drawn).select("id", "launch", "target")

    @cached_property
    def launches(self) -> pl.DataFrame:
        """Return where flows to kernels begin: `id` of the flow, `source` (row of the span that launched a kernel)."""
        launch = self.launched["launch"]
        if self.measures.recording.again is None:
            rows = self.measures.drawn.gather(launch)
        else:
            rows = located(self.measures.recording.spans[launch], self.spans)
        return self.launched.select("id", source=rows).drop_nulls()

    def _rows(self, operators: pl.DataFrame, chosen: pl.Series) -> pl.Series:
        """Return the row in `spans` of each chosen operator.

        Args:
            operators: all operators of the section that have a number from autograd.
            chosen: the indices of the chosen operators in `operators`.
        """
        if self.measures.recording.again is not None:
            return located(operators[chosen], self.spans)
        numbered = (pl.col("category") == Category.OP) & (TIE > 0)
        return self.spans.select(pl.arg_where(numbered)).to_series().gather(chosen)


def located(wanted: pl.DataFrame, spans: pl.DataFrame) -> pl.Series:
    """Return, for each wanted span, its row in `spans`. Of equal spans, return the first; null if `spans` lacks it.

    Args:
        wanted: the spans to find, with the columns that identify a span.
        spans: the spans to search, with the same columns.
    """
    if wanted.is_empty():  # true for most sections
        return pl.Series("row", dtype=pl.UInt32)
    known = spans.select(_KEYS)
    row = COLUMNS.find(_halves(wanted), _halves(known)).rename("row")
    same = pl.all_horizontal(wanted[key] == known[key].gather(row) for key in _KEYS)
    # `find` compares only the starts. Rarely, another span begins at the same time. Only these spans need a join, which
    # takes much more time and memory than `find`
    others = pl.select(same.not_().fill_null(False).alias("place")).to_series().arg_true()
    if others.is_empty():
        return row
    sought = wanted.select(_KEYS)[others].with_columns(place=others)
    near = known.with_row_index("row").join(sought, on="start_ns", how="semi", maintain_order="left")
    joined = sought.join(near, on=_KEYS, how="left", maintain_order="left")
    return row.scatter(others, joined.unique("place", keep="first", maintain_order=True)["row"])


def _halves(spans: pl.DataFrame) -> pl.DataFrame:
    """Return the begins of spans in two columns of 32 bits, the upper half first."""
    start = pl.col("start_ns").reinterpret(signed=False)
    return spans.select(upper=(start // 2**32).cast(pl.UInt32), lower=(start % 2**32).cast(pl.UInt32))
