"""Compute all metrics of one run, once for all writers."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import polars as pl

from ms_profiler.analysis.driver import room
from ms_profiler.analysis.driver.request import Request
from ms_profiler.analysis.driver.room import Room
from ms_profiler.analysis.driver.sections import Section, sections
from ms_profiler.analysis.metrics import (
    batch_makers,
    communication,
    completeness,
    cost,
    dataset,
    device_counters,
    host_operators,
    intervals,
    lasting,
    launched_steps,
    memory as memory_of,
    module_facts,
    operands,
    operators,
    other_steps,
    overlap,
    owner_lanes,
    ownership as ownership_of,
    paired,
    phases,
    pipelines,
    repeated_compiling,
    sampling,
    stack_parts,
    steps,
    stretches,
    tensor_growth,
    tensor_owners,
    totals,
    verdict,
    worker_starts,
)
from ms_profiler.analysis.metrics.advice import Advice, Facts, ranked
from ms_profiler.analysis.metrics.diagnosis import Diagnosis, diagnose
from ms_profiler.analysis.metrics.kernels import by_type, queued
from ms_profiler.analysis.metrics.ownership import Ownership, ownership
from ms_profiler.analysis.metrics.stack_samples import Stacks
from ms_profiler.analysis.metrics.utilization import Utilization, reached
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.readers import memory_records as memory_reader, pipeline_samples as pipeline_reader
from ms_profiler.analysis.streams import device, kernel_stream
from ms_profiler.store.format import CATEGORY_FINE, Category


@dataclass
class Measures:
    """All metrics of one run.

    Attributes:
        recording: the recording.
        chosen: numbers of the selected steps; None for all steps.
        steps: the steps in use.
        spans: the spans of the chosen steps, with the columns of `tables.SPANS` and of `operators.self_times`.
        pieces: the recorded steps cut into phases, from `phases.pieces`.
        shares: the time of each phase, from `phases.shares`.
        compiled: steps (rows of `steps.table`) that compiled something.
        interrupted: recorded steps that ms-profiler interrupted, or slowed by cold caches (`sampling.cold`).
        compile_ns: the time that compiling took.
        stream: the kernels, and when the recorded steps computed or communicated, from `streams.kernel_stream`.
        sums: the times of operators and modules by name, over all spans, from `operators.sum_up`.
        types: the times of kernels by primitive, from `kernels.by_type`.
        calls: exchanges with other ranks, from `communication.calls`.
        memory: memory over time, with the columns of `tables.MEMORY`, if it was requested.
        pipelines: dataset pipelines with samples, the one with the most samples first.
        host_operators: operators that computed during their call, from `host_operators.of_run`; empty if none did.
        run_ns: the time from the first to the last record.
        target: the directory of derived files; by default the recording's directory.
        request: the options of this analysis.
        written: path in `target` -> digest, for each file that was derived from another tool's result.
        existing: paths of other tools' files. Derived files with these paths are not written.
        section_count: number of sections that were written.
        room: disk space that is left.
    """

    recording: tables.Recording
    chosen: list[int] | None
    steps: steps.Steps
    spans: pl.DataFrame
    pieces: pl.DataFrame
    shares: pl.DataFrame
    compiled: list[int]
    interrupted: list[int]
    compile_ns: int
    stream: kernel_stream.Stream
    sums: pl.DataFrame
    types: pl.DataFrame
    calls: pl.DataFrame
    operators: pl.DataFrame
    modules: pl.DataFrame
    waits: pl.DataFrame
    memory: pl.DataFrame
    pipelines: list[pipelines.Pipeline]
    host_operators: pl.DataFrame
    completeness: dict[str, Any]
    cost: dict[str, Any]
    run_ns: int
    target: str = ""
    request: Request = field(default_factory=Request)
    written: dict[str, str] = field(default_factory=dict)
    existing: list[str] = field(default_factory=list)
    section_count: int = 1
    room: Room = field(default_factory=Room)

    @cached_property
    def _operators_compute(self) -> bool:
        return not self.host_operators.is_empty()

    @cached_property
    def shaped(self) -> bool:
        """Return whether at least one operator has recorded shapes of its inputs."""
        return bool(self.spans.select(operands.SHAPED.any()).item())

    @property
    def computes_by_operators(self) -> bool:
        """Return whether the computing time of steps comes from operators on a processor, not phases or kernels."""
        return self.recording.device is None and not self.host_operators.is_empty() and self.recording.sums is None

    @property
    def forms(self) -> frozenset[str]:
        """Return the forms of the result (such as "html") that the run or this analysis requests."""
        info = self.recording.info
        page = ["html"] if info.options.get("report") is True else []
        return self.request.forms | frozenset([] if self.recording.foreign else info.listed("export_type") + page)

    @cached_property
    def totals(self) -> totals.Totals | None:
        """Return estimated sums over the whole run if only some steps were recorded; None if all were recorded."""
        return totals.totals(self.steps, self.spans, self.recording.sums_by_place, self.stream, self.pieces)

    def sections(self) -> Iterator[Section]:
        """Yield the run in sections: consecutive intervals whose records fit into memory."""
        for section in sections(self.recording, self.spans, self.steps.table, self.chosen is not None):
            cut = self.recording.again is not None and self._operators_compute
            listed = host_operators.listed_in(section, self.recording.names) if cut else self.host_operators
            yield replace(section, operators=listed)

    @cached_property
    def drawn(self) -> pl.Series:
        """Return, for each span of the recording, its row in `spans`; null outside of the chosen steps."""
        spans = self.recording.spans
        inside = pl.repeat(True, spans.height, eager=True)
        if self.chosen is not None:
            inside = spans.select(steps.touches(self.steps)).to_series()
        return pl.select(pl.when(inside).then(inside.cast(pl.UInt32).cum_sum() - 1)).to_series()

    @cached_property
    def stacks(self) -> Stacks:
        """Return the Python stacks that were sampled during the chosen steps."""
        table, ever = self.steps.table, (tables.EARLIEST, tables.LATEST)
        return Stacks(self.recording, ever if self.chosen is None else (table["start_ns"][0], table["end_ns"][-1]))

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """Return the diagnosis of the run."""
        return diagnose(
            self.recording,
            self.steps,
            self.pieces,
            self.spans,
            self.stream,
            self.host_operators,
            self.calls,
            self.disturbed,
        )

    @cached_property
    def finding(self) -> verdict.Finding:
        """Return the biggest finding of the run, such as long waits for data."""
        types = by_type(self.stream.of_steps, self.stream.names)
        if (device := self.recording.device) is not None:
            moments = launched_steps.steady(self.stream.moments, self.steady["row"])
            return verdict.of_device(device, self.recording.info, moments, types, self.diagnosis.parts)
        until = _most(self.spans.filter(pl.col("category") == Category.COMPILE)["end_ns"])
        before, found = until - int(_least(self.recording.processes["first_ns"])), self.diagnosis
        compiling = repeated_compiling.finding(self.compile_ns, before, self.run_ns, found.whole, found.again)
        return compiling or verdict.finding(
            found.shares,
            verdict.Places.of(found.placed, found.modules, found.files, found.every),
            self.shares,
            self.steps.source,
            self.steps.recorded.height,
            types,
            found.accelerator,
            queued(self.stream.of_steps) if self.stream.decides else None,
        )

    @cached_property
    def changes(self) -> dict[str, dict[str, Any] | None]:
        """Return what changed for good during the run (`lasting.summary`); not searched for in other tools' results."""
        steps = replace(self.steps, table=self.steps.table.clear()) if self.recording.foreign else self.steps
        on_host = self.on_host if self.diagnosis.launching else None
        return lasting.summary(steps, self.ownership, self.spans, on_host, self.stream.counts, self.recording)

    @cached_property
    def advice(self) -> list[Advice]:
        """Return the advice, the largest cause first."""
        threads = self.recording.threads.filter(process=self.steps.process, thread=self.steps.thread)
        numbers = self.recording.info.numbers()
        facts = Facts(
            numbers=self.steps.table["number"].to_list(),
            lane=(threads["thread_name"][0] if threads.height else "") or f"thread {self.steps.thread}",
            framework=self.recording.info.framework.get("name", ""),
            statistics=steps.statistics(self.steady),
            recorded_ns=int(self.steps.recorded["duration_ns"].sum()),
            types=self.types,
            pipelines=self.pipelines,
            threads=numbers.get("threads", 0),
            processors=numbers.get("processors", 0),
            code=stack_parts.words(self.stacks, self.steps, self.diagnosis.pieces),
            module=self.launching,
            stacks=self.recording.foreign or self.stacks.known or self.stacks.calls.known,
            makers=batch_makers.told(self.recording, self.steps, lambda: self.stacks),
            starts=worker_starts.found(self.recording, self.steps),
            leak=tensor_growth.words(self.diagnosis.growth, lambda: self.blocks, self.steps, self.recording),
        )
        return [] if (device := self.recording.device) and device.unread else ranked(self.diagnosis, facts)

    @cached_property
    def stretches(self) -> pl.DataFrame:
        """Return the time of the whole run cut into parts, such as set-up and steps."""
        return stretches.stretches(self.recording)

    @cached_property
    def ownership(self) -> Ownership | None:
        """Return how much time each module took; None if no module is known."""
        return ownership(self.recording, self.steps, self.steady, self.stream, (self.pieces, self.shares))

    @cached_property
    def on_host(self) -> Ownership | None:
        """Return how much of the stepping thread's time each module took, if `ownership` has the times of kernels."""
        return ownership_of.on_host(self.ownership, self.recording, self.steps, self.steady, (self.pieces, self.shares))

    @cached_property
    def launching(self) -> str:
        """Return text about the module in which launching takes most, if launching bounds the steps; maybe empty."""
        return ownership_of.launching(self.on_host or self.ownership, self.diagnosis)

    @cached_property
    def owner_lanes(self) -> pl.DataFrame:
        """Return which module ran when, as lanes of a timeline."""
        return owner_lanes.lanes(self.ownership)

    @cached_property
    def module_facts(self) -> tuple[pl.DataFrame, dict[str, str]]:
        """Return the tree of modules with their further facts, and the reasons for unknown values."""
        return module_facts.facts(self.ownership, self.on_host, self.recording, self.steps, self.steady, self.stream)

    @cached_property
    def verdict(self) -> str:
        """Return the biggest finding, with the heaviest module if the finding is about the model."""
        kind, found, crowd = self.finding.kind, self.ownership, (self.diagnosis.crowd, self.recording.device)
        heaviest = self.launching if (queues := verdict.launches(kind, found.basis if found else None)) else ""
        if found is not None and not queues:
            own = (found, self.spans, self.recording.names, self.steps, self.steady, self.stream)
            limits = verdict.least_of_module(kind, found.basis == "host"), verdict.optimizes(kind)
            heaviest = verdict.with_waits(ownership_of.heaviest(*own, *limits), *crowd)
        return f"{self.finding.sentence.removesuffix('.')}; {heaviest}." if heaviest else self.finding.sentence

    @property
    def utilization(self) -> Utilization:
        """Return the utilization, computed from the workload that the user stated."""
        return reached(self.request.workload, steps.statistics(self.steady)["mean_ms"])

    @property
    def states(self) -> pl.DataFrame:
        """Return the intervals in which the recorded steps computed and communicated, from `overlap.states`."""
        return self.stream.states

    @cached_property
    def curves(self) -> pl.DataFrame:
        """Return the counters of a device over time in the chosen steps, such as queues and memory."""
        found = device_counters.counters(self.recording.device or tables.Device.none())
        if self.chosen is None:
            return found
        during = self.stream.during
        between = during["start_ns"].min(), during["end_ns"].max()
        return found.filter(pl.col("time_ns").is_between(*between)) if during.height else found.clear()

    @property
    def held(self) -> pl.DataFrame:
        """Return `tables.MEMORY` of the allocator that holds most memory, with its name in the column `component`."""
        held = memory_of.held(self.memory, self.recording, self.steps)
        if self.chosen is None or memory_of.of_host(self.memory, self.recording):
            return held
        return held.filter(intervals.locate(held["time_ns"], self.steps.table).is_not_null())

    @cached_property
    def blocks(self) -> pl.DataFrame:
        """Return the memory blocks of the host's allocator with their owners, from `tensor_owners.owned`."""
        found = None if self.recording.blocks.is_empty() else self.ownership
        return tensor_owners.owned(self.recording, self.steps, self.recording.spans, self.pieces, found)

    @property
    def disturbed(self) -> list[int]:
        """Return the steps (rows of `steps.table`) that are not steady, see `steps.settled`."""
        return self.compiled + self.interrupted

    @property
    def steady(self) -> pl.DataFrame:
        """Return the recorded steady steps: all except the first one and the disturbed ones (`steps.settled`)."""
        known = self.steps.table.with_row_index("row").filter("recorded")
        return known.filter(pl.col("row").is_in(steps.settled(known, self.disturbed, self.steps.source)))


def measure(recording: tables.Recording, chosen: list[int] | None = None) -> Measures:
    """Compute every metric.

    Args:
        recording: the run.
        chosen: step numbers to analyse; None for all.

    Raises:
        UsageError: the run has none of these steps.
    """
    communication.settle_rank(recording)
    whole = used = steps.choose(recording)
    spans = operators.self_times(recording.spans, operators.runtime_calls(recording))
    if chosen is not None:
        used = steps.restrict(used, chosen, recording.directory)
        spans = spans.filter(steps.touches(used))
    pieces = phases.pieces(exchanging := host_operators.with_exchanges(recording, spans), used)
    compiled = phases.compiling(times := phases.by_step(pieces))
    interrupted = sorted({*phases.interrupted(times), *sampling.cold(used, spans)})
    rows = steps.settled(used.table.with_row_index("row").filter("recorded"), compiled + interrupted, used.source)
    shares = other_steps.steady_phases(times, rows, other_steps.unsampled(spans, used))
    compiling = spans.filter(pl.col("process") == used.process, pl.col("category") == Category.COMPILE)
    compile_ns = intervals.total_ns(intervals.union(compiling))
    sums = operators.sum_up(spans)
    if recording.sums is not None:
        sums = pl.concat([sums.filter(pl.col("category") < CATEGORY_FINE), recording.sums])
    first, last = int(_least(recording.processes["first_ns"])), int(_most(recording.processes["last_ns"]))
    own = host_operators.of_run(recording, spans)
    if recording.device is not None:
        stream = device.collect(recording, recording.device, whole, used)
        calls = (
            device.calls(recording.device, stream)
            if recording.foreign
            else communication.calls(recording, used, stream.table, stream.names, stream.texts)
        )
    else:
        compute = overlap.computing(pieces)
        if not own.is_empty() and recording.sums is None:  # the time comes from operators if all of them are in memory
            compute = host_operators.computing(recording, own, spans, pieces, used)
        communicate = overlap.communicating(exchanging, pieces, used)
        stream = kernel_stream.collect(recording, used, compute, communicate, chosen is not None)
        calls = communication.calls(recording, used, stream.table, stream.names, stream.texts)
    watched = pipeline_reader.read(recording)
    memory = memory_reader.read(recording)
    if chosen is not None:
        memory = memory.filter(
            pl.col("time_ns").is_between(_least(used.table["start_ns"]), _most(used.table["end_ns"]))
        )
    return Measures(
        recording=recording,
        chosen=chosen,
        steps=used,
        spans=spans,
        pieces=pieces,
        shares=shares,
        compiled=compiled,
        interrupted=interrupted,
        compile_ns=compile_ns,
        stream=stream,
        sums=sums,
        types=by_type(stream.sums, stream.names),
        calls=calls,
        operators=operators.by_name(sums, recording.names, Category.OP),
        modules=operators.by_name(sums, recording.names, Category.MODULE),
        waits=dataset.waits(spans, recording.names),
        memory=memory,
        pipelines=pipelines.pipelines(watched),
        host_operators=own,
        completeness=completeness.completeness(recording, [*stream.lost, *pipelines.lost(watched, first)]),
        cost=cost.cost(recording, last - first, paired.paired(recording, whole)),
        run_ns=last - first,
        target=recording.directory,
        room=room.of(recording),
    )


def _least(times: pl.Series) -> int:
    return min(times.to_list(), default=0)


def _most(times: pl.Series) -> int:
    return max(times.to_list(), default=0)
