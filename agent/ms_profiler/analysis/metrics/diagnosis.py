"""Diagnose why the steps of a run take as long as they do; this computes all the metrics on which advice is based."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import (
    anomaly_checks,
    bounds,
    checkpoint_files,
    communication,
    copies,
    critical_path,
    dataset,
    device_bounds,
    device_path,
    device_waits,
    exchanged_passes,
    host_operators,
    intervals,
    launch_counts,
    launched_steps,
    links,
    module_waits,
    other_steps,
    overheads,
    packets,
    pauses,
    process_growth,
    reads,
    recompilations,
    repeated_compiling,
    replicas,
    scheduling,
    script_exchanges,
    strain,
    tensor_growth,
)
from ms_profiler.analysis.metrics.communication import COLLECTIVES
from ms_profiler.analysis.metrics.growth import Growth
from ms_profiler.analysis.metrics.launch_counts import Launched
from ms_profiler.analysis.metrics.phases import OTHER
from ms_profiler.analysis.metrics.steps import Steps, settled, stepping
from ms_profiler.analysis.model import tables
from ms_profiler.analysis.streams.device_time import LAUNCHED
from ms_profiler.analysis.streams.kernel_stream import Stream
from ms_profiler.store.format import Category, StepSource

#: the launches of the steps tell what bounds the job if at least this share of a device's kernels comes from them
IN_STEPS: Final = 0.5


@dataclass
class Diagnosis:
    """The diagnosis of the steps: their parts, and the reasons for their length.

    Attributes:
        pieces: the examined steps cut into parts, from `bounds.parts`, or from `device_bounds.parts` for a recorded
            device. The examined steps are the steady steps whose operators or kernels are known, if there are any.
        parts: the time of each part in each step, from `bounds.by_step` for `pieces`.
        moments: the result of `bounds.parts` for the examined steps, also if a device was recorded.
        crowd: waits of the job's threads for processors in these steps.
        delayed: the share of the waits for data and for other ranks that arose because threads waited for a processor.
        reading: the share of the launching time between close reads of values; 0 if no operators compute on the host.
        optimizing: cost of the optimizer in these steps.
        casts: cost of casts in these steps; None if unknown.
        late: waits of exchanges for other ranks; None if unknown.
        seen: whether the times of operators or kernels are known. If not, "computing" refers to a phase of the step.
        accelerator: whether a device computed, but was not recorded. The reason for the host's waits is then unknown.
        path: the critical paths of the same steps, in the form of `critical_path.segments`.
        launched: figures of the operators or kernels; None if none were recorded.
        reads: the reads of values and the waits for the device in the same steps, from `reads.reads`.
        recompiles: repeated compilations: `step` (row of `steps.table`), `text`.
        again: what the steps compiled after the first compilation; None if this was warm-up.
        checks: the checks of gradients by PyTorch's anomaly detection; None if it is off.
        exchanged: the backward passes of a step that each exchange the gradients; None if at most one does.
        called: the exchange that the script calls between the passes, and that takes much of the communication.
        growth: the growth of the memory of tensors, or of the process if tensors are unknown; None without growth.
        on_device: the growth of the memory of tensors on a device; None without growth.
        pauses: the garbage collections of Python in the same steps.
        packets: figures of small exchanges; None if unknown.
        links: the slow links between ranks.
        waits: the time that the stepping thread waited for each data operation, from `dataset.waits`; in all steps.
        files: what the job does with checkpoints, from `checkpoint_files.does`.
        modules: part of a step -> the owner of most of its time, from `module_waits.within`.
        copied: the copies that a device ran while nothing else ran on it, in the same steps; None without any.
        strains: the causes of slow steps that lie in the machine.
        whole: whether the whole run counts as one step, which then includes imports and set-up.
        every: what is known of all steady steps; None if all of them are examined.
        cut: the examined steps cut into phases, from `phases.pieces`.
    """

    pieces: pl.DataFrame
    parts: pl.DataFrame
    moments: pl.DataFrame
    crowd: scheduling.Crowd
    delayed: overheads.Delayed
    reading: float
    optimizing: overheads.Optimizing
    casts: overheads.Casts | None
    late: overheads.Late | None
    seen: bool
    accelerator: bool
    path: pl.DataFrame
    launched: Launched | None
    reads: pl.DataFrame
    recompiles: pl.DataFrame
    again: repeated_compiling.Again | None
    growth: Growth | None
    pauses: pauses.Pauses | None
    packets: packets.Packets | None
    links: list[links.Slow]
    waits: pl.DataFrame
    exchanged: exchanged_passes.Exchanged | None = None
    called: script_exchanges.Called | None = None
    on_device: Growth | None = None
    files: str = checkpoint_files.WRITES
    modules: dict[str, str] = field(default_factory=dict)
    copied: copies.Copied | None = None
    strains: list[strain.Strain] = field(default_factory=list)
    whole: bool = False
    every: other_steps.AllSteps | None = None
    cut: pl.DataFrame = field(default_factory=pl.DataFrame)
    checks: anomaly_checks.Checks | None = None

    @cached_property
    def shares(self) -> dict[str, float]:
        """Return the share of each part in the time of all steady steps, also of those that are not examined."""
        known = bounds.shares(self.parts)
        if self.every is None:
            return known
        return dict.fromkeys(known, 0.0) | other_steps.shares(self.pieces, "part", self.cut, self.every)

    @cached_property
    def path_shares(self) -> dict[str, float]:
        """Return the share of each kind of time in the critical paths of all steady steps, as `shares` does."""
        if self.every is None or self.path.is_empty():
            return critical_path.shares(self.path)
        known = other_steps.shares(self.path, "kind", self.cut, self.every)
        return {kind: known[kind] for kind in critical_path.KINDS if known.get(kind)}

    @property
    def placed(self) -> pl.DataFrame:
        """Return `moments` with the phases in which the script called the work: launches may come later."""
        if self.launched is None or not self.launched.queued:
            return self.moments
        launch = pl.col("part") == bounds.LAUNCH
        return self.moments.with_columns(phase=pl.when(launch).then(pl.lit(OTHER)).otherwise("phase"))

    @property
    def launching(self) -> bool:
        """Return whether launching the kernels of a device takes more time than any other part of the steps.

        If the job launches most kernels outside of steps, such as those of CUDA graphs, its steps tell little.
        """
        known, shares = self.launched is not None and self.launched.in_steps >= IN_STEPS, self.shares
        return known and 0 < shares[bounds.LAUNCH] == max(shares.values())


def diagnose(
    recording: tables.Recording,
    steps: Steps,
    cut: pl.DataFrame,
    spans: pl.DataFrame,
    stream: Stream,
    operators: pl.DataFrame,
    calls: pl.DataFrame,
    disturbed: list[int],
) -> Diagnosis:
    """Diagnose a run.

    Args:
        recording: the run.
        steps: the steps in use.
        cut: the steps cut into phases, from `phases.pieces`.
        spans: the spans of the chosen steps, with the columns of `tables.SPANS`.
        stream: the stream of kernels.
        operators: the operators of `host_operators.calls` if operators compute during their calls; otherwise empty.
        calls: the exchanges with other ranks, from `communication.calls`.
        disturbed: steps (rows of `steps.table`) that are not steady, see `steps.settled`.
    """
    own = operators.filter(pl.col("process") == steps.process)
    kernels = stream.table.filter(pl.col("process") == steps.process).with_columns(
        end_ns=pl.col("start_ns") + pl.col("duration_ns")
    )
    watched = stream.decides and not kernels.is_empty()
    rows = _chosen(steps, disturbed, own, stream if watched else None)
    chosen = cut.filter(pl.col("step").is_in(rows))
    during = steps.table.with_row_index("step").filter(pl.col("step").is_in(rows))
    watched = watched and intervals.locate(kernels["start_ns"], during).is_not_null().any()
    states = stream.states
    computing = states.filter("computing").select(intervals.BOUNDS)
    communicating = states.filter("communicating").select(intervals.BOUNDS)
    launched = ran = None
    inner = own.filter("inner") if not watched and not own.is_empty() else None
    tasks = _tasks(recording, kernels, stream, watched)
    called = own
    if watched:
        ran = intervals.union(kernels)
        launched = launch_counts.found("kernels", kernels, during)
        if launched is not None:
            launched = replace(launched, behind=_behind(tasks, during), in_steps=_in_steps(recording, stream))
        called = spans.filter(recording.device is None, pl.col("category") == Category.OP)
    elif inner is not None:
        ran = intervals.union(own.filter(host_operators.computes(own, recording.names)))
        launched = launch_counts.found("operators", inner, during)
        if recording.sums is not None and recording.whole_steps:  # in the other steps, the phases decided
            computing = host_operators.computing(recording, own, spans, chosen, steps).select(intervals.BOUNDS)
    if launched is not None:
        outside, aside = launch_counts.outside(stepping(called, steps), recording.names, chosen)
        launched = replace(launched, outside=outside, aside=aside / max(len(rows), 1))
    points = reads.reads(spans, recording.names, chosen, steps)
    drained = points.head(0)
    if inner is None:  # operators that compute within their calls are done when a read begins: the read waits for none
        beside = ran if watched and ran is not None else kernels.head(0)
        starts = kernels.head(kernels.height if watched else 0)["start_ns"].sort()
        drained = reads.drained(points, beside, starts, chosen)
    cells = scheduling.cells(recording.looks, steps.process, steps.thread)
    collecting = pauses.collections(spans, recording.names, steps).select(intervals.BOUNDS)
    moments = pieces = bounds.parts(
        chosen, intervals.union(computing), intervals.union(communicating), drained, ran, collecting, cells, watched
    )
    none = chosen.head(0)
    host = (
        bounds.parts(chosen, none, none, none, _launching(recording, kernels), collecting, cells, True)
        if watched
        else pieces
    )
    path = None
    if recording.device is not None and recording.device.form != tables.Form.MS_PROFILER:
        did = bounds.parts(cut, cut.head(0), cut.head(0), cut.head(0), None, collecting, cells)
        pieces, path = _of_device(recording, recording.device, stream, spans, steps, did, rows)
    thinned = recording.thinned or stream.detailed is not None
    every = other_steps.every(spans, steps, cut, rows, disturbed, thinned, collecting)
    own_spans = stepping(spans, steps)
    own_spans = own_spans.filter(intervals.locate(own_spans["start_ns"], during).is_not_null())
    known, replicated = (recording.looks, recording.host), communication.replicated(recording, steps, rows)
    crowd = scheduling.crowd(*known, steps.process, steps.thread, during, *_processors(recording))
    return Diagnosis(
        pieces=pieces,
        parts=bounds.by_step(pieces),
        moments=moments,
        modules=module_waits.within(moments, spans, recording.names, steps),
        copied=None if recording.device is None else copies.exposed(recording.device.copies, pieces),
        crowd=crowd,
        strains=strain.strains(recording, steps, rows, crowd.busy),
        whole=steps.source == StepSource.WHOLE_RUN,
        cut=chosen,
        every=every,
        delayed=overheads.delayed(recording.looks, steps, moments, crowd),
        reading=0.0 if inner is None else overheads.reading(points, inner["start_ns"].sort(), moments),
        optimizing=overheads.with_caller(
            overheads.optimizing_beside(moments, kernels, during)
            if watched
            else overheads.optimizing(moments, inner, during),
            own_spans,
            recording.names,
            during,
        ),
        casts=None if inner is None else overheads.casts(own, recording.names, during),
        late=overheads.late(calls, rows, own_spans, recording.names) or overheads.late_beside(*replicated, len(rows)),
        seen=ran is not None,
        accelerator=ran is None and recording.info.framework.get("device", "").upper() not in ("", "CPU"),
        path=critical_path.segments(
            during, tasks, _waits(recording, spans if watched else spans.head(0), steps, cut), host, moments
        )
        if path is None
        else path,
        launched=launched,
        reads=points,
        recompiles=(repeated := recompilations.recompilations(recording, steps)),
        again=repeated_compiling.of_steps(repeated, spans, steps),
        growth=tensor_growth.found(recording, steps, disturbed)
        or process_growth.found(recording, steps, kernels, disturbed),
        on_device=tensor_growth.on_device(recording, steps, disturbed),
        pauses=pauses.pauses(spans, recording.names, steps, rows if every is None else every.rows.to_list()),
        packets=packets.packets(calls),
        exchanged=exchanged_passes.found(replicated[1], steps, rows, spans, calls, recording.names),
        called=script_exchanges.found(calls, own_spans, pieces, rows),
        links=links.slow(links.bandwidths(calls)),
        files=checkpoint_files.does(spans, recording.names, steps),
        checks=anomaly_checks.found(spans, recording.names, during),
        waits=dataset.waits(own_spans if every is None else other_steps.fetches(spans, steps, rows), recording.names),
    )


def _processors(recording: tables.Recording) -> tuple[int, int]:
    """Return how many processors the job may use, and how many threads compute an operator; 0 if unknown."""
    numbers = recording.info.numbers()
    return numbers.get("processors", 0), numbers.get("threads", 0)


def _chosen(steps: Steps, disturbed: list[int], operators: pl.DataFrame, stream: Stream | None) -> list[int]:
    """Return the rows of the steps to examine: the steady steps with known work; all steady steps if there are none.

    A step in which a recorded device did nothing is not examined: its records are missing, or it is no training step.
    """
    known = steps.table.with_row_index("row").filter("recorded")
    steady = known.filter(~pl.col("row").is_in(disturbed))
    known = known if steady.is_empty() else steady
    seen = known
    if stream is not None and not stream.covered.is_empty():
        place = intervals.locate(known["start_ns"], stream.covered)
        inside = stream.covered["end_ns"].gather(place) >= known["end_ns"]
        seen = known.filter(inside.fill_null(False))
    elif stream is not None and not stream.moments.is_empty():
        ran = stream.moments.filter(pl.col("idle") < pl.col("length"))["step"]
        seen = known.filter(pl.col("row").is_in(ran.implode()))
    elif not operators.is_empty():
        with_some = host_operators.known(operators, steps)["step"]
        seen = known.filter(pl.col("row").is_in(with_some.implode()))
    if stream is not None and stream.detailed is not None:
        seen = seen.filter(pl.col("number").is_in(stream.detailed))
    return settled(known if seen.is_empty() else seen, disturbed, steps.source)


def _in_steps(recording: tables.Recording, stream: Stream) -> float:
    """Return the share of a device's kernels that the steps launched; 0 if no device was recorded."""
    if recording.device is None or recording.device.on_host:
        return 0.0
    return float(stream.of_steps["count"].sum() / max(stream.count, 1))


def _behind(tasks: pl.DataFrame, during: pl.DataFrame) -> float | None:
    known = tasks.filter(intervals.locate(tasks["start_ns"], during).is_not_null(), pl.col("launch_ns").is_not_null())
    if known.is_empty():
        return None
    late = known.select((pl.col("start_ns") - pl.col("launch_ns")).median()).item()
    length = during.select((pl.col("end_ns") - pl.col("start_ns")).mean()).item()
    return float(late / max(length, 1))


def _tasks(recording: tables.Recording, kernels: pl.DataFrame, stream: Stream, watched: bool) -> pl.DataFrame:
    """Return the work for the critical path: the device's tasks, or the host's kernels; no rows if neither is known."""
    if recording.device is not None:
        return recording.device.tasks.select(*intervals.BOUNDS, "launch_ns", "exchange")
    known = kernels if watched else kernels.head(0)
    types = stream.names["type"].is_in(list(COLLECTIVES)) if stream.names.height else pl.Series(dtype=pl.Boolean)
    return known.select(
        *intervals.BOUNDS,
        recording.spans["start_ns"].gather(known["launch"]).alias("launch_ns"),
        types.gather(known["kernel"]).fill_null(False).alias("exchange"),
    )


def _launching(recording: tables.Recording, kernels: pl.DataFrame) -> pl.DataFrame:
    """Return the intervals in which the script called operators that launched kernels on a device."""
    return intervals.union(recording.spans.select(intervals.BOUNDS)[kernels["launch"].drop_nulls()])


def _of_device(
    recording: tables.Recording,
    device: tables.Device,
    stream: Stream,
    spans: pl.DataFrame,
    steps: Steps,
    host: pl.DataFrame,
    rows: list[int],
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the parts of the examined steps (`rows`) and their critical paths, if a device was recorded."""
    did, waits = device_path.tasks_of(device), _waited(recording, device, spans, steps)
    during = stream.during.filter(pl.col("step").is_in(rows))
    states = stream.states
    if device.form not in LAUNCHED:
        # the known states follow the vendor's formulas. These formulas end steps at other times than `during` does, so
        # the states are computed again
        copied = intervals.union(device.copies)
        states = launched_steps.pieces(device.tasks, copied, during, tables.EARLIEST, tables.LATEST)
    known = device.tasks["launch_ns"].null_count() < device.tasks.height
    exchanged = intervals.union(replicas.awaited(recording, steps, replicas.beside(recording, steps)))
    host = device_bounds.host(host, during, did, waits, device_bounds.elsewhere(spans, steps), exchanged)
    pieces = device_bounds.parts(states.filter(pl.col("step").is_in(rows)), did, host, known)
    if device.on_host or device.unread:  # the path is that of the host's operators; an unread device has no path
        pieces = pieces.head(0 if device.unread else pieces.height)
        return pieces, pieces.rename({"part": "kind"})
    known = device_waits.known(device) or not waits.is_empty()
    return pieces, device_path.segments(during.head(during.height if known else 0), did, waits, host)


def _waited(recording: tables.Recording, device: tables.Device, spans: pl.DataFrame, steps: Steps) -> pl.DataFrame:
    """Return the host's waits for a device: known waiting calls, and waiting spans that contain no known call."""
    known = device_waits.waits(device)
    own = stepping(spans, steps, Category.SYNC, Category.GRAPH)
    own = own.select(*intervals.BOUNDS, thread=None, stream=None, released_ns=None)
    calls = device_waits.of_path(known, recording, steps.process, steps.thread)
    # if a waiting call is known, it replaces the span around it
    around = own.filter(intervals.locate(own["end_ns"], intervals.union(calls)).is_null())
    return pl.concat([calls, around.cast(device_waits.WAITED)])


def _waits(recording: tables.Recording, spans: pl.DataFrame, steps: Steps, cut: pl.DataFrame) -> pl.DataFrame:
    """Return the waits of the host for kernels, without the time of compiling.

    Reads, exchanges and graphs count: the call of a graph returns when the graph has run. A backward pass counts, too,
    because its launches may be unrecorded. The time between two of its kernels then counts as launching.
    """
    own = stepping(spans, steps, Category.SYNC, Category.GRAPH, Category.COMMUNICATION, Category.BACKWARD)
    return intervals.subtract(intervals.union(own), cut.filter(pl.col("phase") == bounds.COMPILE))
