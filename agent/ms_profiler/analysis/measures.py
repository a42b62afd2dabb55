"""Every metric of one run, computed once and handed to every writer."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import polars as pl

from ms_profiler.analysis import device, kernels, tables
from ms_profiler.analysis.diagnosis import Diagnosis, diagnose
from ms_profiler.analysis.metrics import (
    communication,
    completeness,
    cost,
    dataset,
    device_steps,
    host_operators,
    intervals,
    operands,
    operators,
    overlap,
    phases,
    pipelines,
    steps,
    verdict,
)
from ms_profiler.analysis.metrics.advice import Advice, Facts, ranked
from ms_profiler.analysis.metrics.kernels import by_type
from ms_profiler.analysis.metrics.utilization import Utilization, reached
from ms_profiler.analysis.readers import memory as memory_reader, pipelines as pipeline_reader
from ms_profiler.analysis.request import Request
from ms_profiler.analysis.sections import Section, sections
from ms_profiler.errors import UsageError
from ms_profiler.store.format import CATEGORY_FINE, Category


@dataclass
class Measures:
    """One run, measured.

    Attributes:
        recording: what was read.
        chosen: the steps that were asked for; None for all.
        steps: the steps in use.
        spans: `tables.SPANS` with `duration_ns` and `self_ns`, of the chosen steps.
        pieces: the recorded steps cut by phase, see `phases.pieces`.
        shares: time by phase, see `phases.shares`.
        compiled: steps (rows of `steps.table`) that compiled something.
        compile_ns: time in which something was compiled.
        stream: the kernels, and the recorded steps by state, see `analysis.kernels`.
        sums: of `operators.sum_up`, over all spans.
        types: kernels by primitive, see `kernels.by_type`.
        calls: what was exchanged with other ranks, see `communication.calls`.
        memory: `tables.MEMORY`, where it was asked for.
        pipelines: dataset pipelines whose operators were watched, the one with the most samples first.
        run_ns: from the first to the last record.
        target: the directory that receives what is derived; that of the recording by default.
        asked: what is asked of this analysis.
        written: digests of the files that were derived from another tool's result, by path in `target`.
        kept: paths there where a file of somebody else stands in place of a derived one.
        section_count: sections that were written.
    """

    recording: tables.Recording
    chosen: list[int] | None
    steps: steps.Steps
    spans: pl.DataFrame
    pieces: pl.DataFrame
    shares: pl.DataFrame
    compiled: list[int]
    compile_ns: int
    stream: kernels.Stream
    sums: pl.DataFrame
    types: pl.DataFrame
    calls: pl.DataFrame
    operators: pl.DataFrame
    modules: pl.DataFrame
    waits: pl.DataFrame
    memory: pl.DataFrame
    pipelines: list[pipelines.Pipeline]
    finding: verdict.Finding
    completeness: dict[str, Any]
    cost: dict[str, Any]
    run_ns: int
    target: str = ""
    asked: Request = field(default_factory=Request)
    written: dict[str, str] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    section_count: int = 1

    @cached_property
    def host_operators(self) -> pl.DataFrame:
        """Return the operators that computed where they were called, of `host_operators.calls`, if there are such."""
        return host_operators.calls(self.spans if self._operators_compute else self.spans.head(0))

    @cached_property
    def _operators_compute(self) -> bool:
        return host_operators.compute(self.recording) and not self.stream.decides

    @cached_property
    def shaped(self) -> bool:
        """Tell whether the shapes of any operator that computed where it was called are known."""
        return bool(self.spans.select(operands.SHAPED.any()).item())

    @property
    def forms(self) -> frozenset[str]:
        """Return the forms of the result that the run or this analysis asks for."""
        own = self.recording.info.options.get("export_type") or () if not self.recording.foreign else ()
        return self.asked.forms | frozenset(own)

    def sections(self) -> Iterator[Section]:
        """Yield the sections of the run."""
        for section in sections(self.recording, self.spans, self.steps.table, self.chosen is not None):
            cut = self.recording.again is not None and self._operators_compute
            yield replace(section, operators=host_operators.calls_in(section) if cut else self.host_operators)

    @cached_property
    def drawn(self) -> pl.Series:
        """Return the row in `spans` of each span of the recording, null for those outside of the chosen steps."""
        spans = self.recording.spans
        inside = pl.repeat(True, spans.height, eager=True)
        if self.chosen is not None:
            inside = spans.select(steps.touches(self.steps)).to_series()
        return pl.select(pl.when(inside).then(inside.cast(pl.UInt32).cum_sum() - 1)).to_series()

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """Return why steps take as long as they do."""
        return diagnose(
            self.recording,
            self.steps,
            self.pieces,
            self.spans,
            self.stream,
            self.host_operators,
            self.calls,
            self.compiled,
        )

    @cached_property
    def advice(self) -> list[Advice]:
        """Return what to try, the cause of the time first."""
        threads = self.recording.threads.filter(
            pl.col("process") == self.steps.process, pl.col("thread") == self.steps.thread
        )
        name = threads["thread_name"][0] if threads.height else ""
        facts = Facts(
            numbers=self.steps.table["number"].to_list(),
            lane=name or f"thread {self.steps.thread}",
            framework=self.recording.info.framework.get("name", ""),
            statistics=steps.statistics(self.steady),
            compiled=self.compiled,
            recorded=self.steps.recorded.height,
            recorded_ns=int(self.steps.recorded["duration_ns"].sum()),
            types=self.types,
            pipelines=self.pipelines,
        )
        return ranked(self.diagnosis, facts)

    @property
    def utilization(self) -> Utilization:
        """Return what follows from the workload that the user told."""
        return reached(self.asked.workload, steps.statistics(self.steady)["mean_ms"])

    @property
    def states(self) -> pl.DataFrame:
        """Return the recorded steps cut by state, see `overlap.states`."""
        return self.stream.states

    @property
    def steady(self) -> pl.DataFrame:
        """Return the recorded steps that compiled nothing; all recorded ones where that leaves none."""
        known = self.steps.table.with_row_index("row").filter("recorded")
        steady = known.filter(~pl.col("row").is_in(self.compiled))
        return known if steady.is_empty() else steady


def measure(recording: tables.Recording, chosen: list[int] | None = None) -> Measures:
    """Compute every metric.

    Args:
        recording: the run.
        chosen: step numbers to keep to; None for all.

    Raises:
        UsageError: the run has none of these steps.
    """
    communication.settle_rank(recording)
    used = steps.choose(recording)
    spans = operators.self_times(recording.spans)
    if chosen is not None:
        used = steps.restrict(used, chosen)
        if used.table.is_empty():
            raise UsageError(f"{recording.directory} has none of the steps {chosen[0]} to {chosen[-1]}.")
        spans = spans.filter(steps.touches(used))
    pieces = phases.pieces(spans, used)
    times = phases.by_step(pieces)
    compiled = phases.compiling(times)
    shares = phases.shares(times, compiled)
    compile_ns = intervals.total_ns(
        intervals.union(spans.filter(pl.col("process") == used.process, pl.col("category") == Category.COMPILE))
    )
    sums = operators.sum_up(spans)
    if recording.sums is not None:
        sums = pl.concat([sums.filter(pl.col("category") < CATEGORY_FINE), recording.sums])
    first, last = int(_least(recording.processes["first_ns"])), int(_most(recording.processes["last_ns"]))
    before_ns = int(used.table["end_ns"][compiled[-1]]) - first if compiled else 0
    recorded = used.recorded.height
    restricted = chosen is not None
    if recording.device is not None:
        during = device_steps.windows(recording.device.runs, used, recording.device.form)
        stream = device.collect(recording, recording.device, used, during, restricted)
        calls = (
            device.calls(recording.device, during)
            if recording.foreign
            else communication.calls(recording, used, stream.table, stream.names, stream.texts)
        )
    else:
        stream = kernels.collect(
            recording, used, overlap.computing(pieces), overlap.communicating(spans, pieces, used), restricted
        )
        calls = communication.calls(recording, used, stream.table, stream.names, stream.texts)
    types = by_type(stream.sums, stream.names)
    watched = pipeline_reader.read(recording)
    memory = memory_reader.read(recording)
    if chosen is not None:
        between = _least(used.table["start_ns"]), _most(used.table["end_ns"])
        memory = memory.filter(pl.col("time_ns").is_between(*between))
    return Measures(
        recording=recording,
        chosen=chosen,
        steps=used,
        spans=spans,
        pieces=pieces,
        shares=shares,
        compiled=compiled,
        compile_ns=compile_ns,
        stream=stream,
        sums=sums,
        types=types,
        calls=calls,
        operators=operators.by_name(sums, recording.names, Category.OP),
        modules=operators.by_name(sums, recording.names, Category.MODULE),
        waits=dataset.waits(spans, recording.names),
        memory=memory,
        pipelines=pipelines.pipelines(watched),
        finding=verdict.finding(shares, used.source, recorded, compile_ns, before_ns, last - first, types)
        if recording.device is None
        else verdict.of_device(stream.times, types),
        completeness=completeness.completeness(recording, [*stream.lost, *pipelines.lost(watched, first)]),
        cost=cost.cost(recording, last - first),
        run_ns=last - first,
        target=recording.directory,
    )


def _least(times: pl.Series) -> int:
    return min(times.to_list(), default=0)


def _most(times: pl.Series) -> int:
    return max(times.to_list(), default=0)
