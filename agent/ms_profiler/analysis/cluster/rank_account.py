"""The account of one rank: the figures that the comparison of ranks needs, such as its steps and its exchanges.

A part says what filled an interval, such as computing or waiting for data (`metrics.bounds`). A piece is an interval
with one part.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from ms_profiler.analysis.cluster import (
    ending,
    exchanged,
    expert_exchanges,
    module_times,
    parallel_groups,
    stage_waits,
    step_gaps,
    step_uses,
)
from ms_profiler.analysis.cluster.ending import Ending
from ms_profiler.analysis.metrics import bounds, communication, host_load, intervals, scheduling
from ms_profiler.analysis.model import tables
from ms_profiler.store import host_metrics
from ms_profiler.store.format import StepSource

if TYPE_CHECKING:
    from ms_profiler.analysis.metrics.measures import Measures
    from ms_profiler.analysis.metrics.steps import Steps

#: one row per step, sorted by number
STEPS: Final = pl.Schema(
    {
        "step": pl.Int64,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        # own time: from the end of the previous exchange until the rank is ready for the next one; null if unknown
        "own_ns": pl.Int64,
        # time in which an exchange ran, also while the rank computed, in the step and between it and the step before
        "exchange_ns": pl.Int64,
        # longest time for which a thread waited for a processor; null if unknown
        "queued_ns": pl.Int64,
        "processor_ns": pl.Int64,  # CPU time of the rank's processes; null if unknown
        # the next three are the columns of `step_uses.USES`; null if unknown
        "waiting_ns": pl.Int64,
        "checkpoint_ns": pl.Int64,
        "compile_ns": pl.Int64,
        "bubble_ns": pl.Int64,  # time of only waiting for neighbours in a pipeline; null if no pipeline is known
        "messages_ns": pl.Int64,  # time of only waiting in messages (`stage_waits.in_messages`); null if unknown
        "unseen": pl.Boolean,  # whether the recording lacks exchanges of the step; null if unknown
    }
)
#: one row per step and part: the time of the part within the step (`metrics.bounds`) and before the step (`step_gaps`)
PARTS: Final = pl.Schema({"step": pl.Int64, "part": pl.String, "duration_ns": pl.Int64})
#: part for intervals in which the stepping thread slept without interruption. Waits for data, a checkpoint or other
#: ranks have parts of their own
STILL: Final = "standing still"
#: a thread that sleeps for this many ns without interruption counts as stopped
STILL_NS: Final = 200_000_000
#: parts in which the stepping thread is known to wait for something
_WAITS: Final = (bounds.COMMUNICATION, *bounds.WAITS)


@dataclass
class RankAccount:
    """The account of one rank: the figures that the comparison of ranks needs.

    Attributes:
        directory: the directory of its result.
        rank: number of the rank.
        world_size: the number of ranks of the job.
        host: name of its machine.
        boot: text that identifies the machine and its last boot; empty if unknown.
        started_ns: when its recording began, nanoseconds since the epoch.
        ended_ns: when the last record was made, nanoseconds since the epoch.
        end: the way in which its process ended.
        verdict: the finding in the summary of its run.
        uncertainty_ns: the uncertainty of its clock, in ns; None if unknown.
        role: the role of its process in the job; empty if all processes do the same.
        actor: the id of its Ray actor; empty if the process is no Ray actor.
        attempt: how often its launcher had started the rank before.
        job: the name of its launch. All ranks of the launch on one machine have this name, and all their restarts.
        saved: for each checkpoint that it wrote completely, the last step that the checkpoint holds; -1 for a
            checkpoint that holds no step.
        loaded: whether it read a checkpoint before its first step ended.
        stepped: whether its steps are those of the job; otherwise the whole run counts as one step.
        groups: name of a group that it used -> the ranks of the group.
        purposes: name of a group -> its purposes, such as a pipeline (`parallel_groups`).
        between: part of the time between steps -> the module or operator that takes most of it, from `step_gaps`.
        modules: part of a step -> module -> its own time in a mean step, ns, from `module_times`.
        peaks: part of a step -> the module that makes it far longer in few steps, and these steps, from `module_times`.
        ending: how its recording ends; None if unknown.
        steps: its steps, with the columns of `STEPS`.
        parts: the parts of these steps, with the columns of `PARTS`.
        exchanges: its exchanges, as `exchanged.EXCHANGES`; as `exchanged.MARKED` after `gathering` has reduced them.
        sent: the exchanges of its experts, as `expert_exchanges.SENT`; only `gathering` fills this table.
    """

    directory: str
    rank: int
    world_size: int
    host: str
    boot: str
    started_ns: int
    ended_ns: int
    end: str
    verdict: str
    uncertainty_ns: int | None
    role: str = ""
    actor: str = ""
    attempt: int = 0
    job: str = ""
    saved: list[int] = field(default_factory=list)
    loaded: bool = False
    stepped: bool = True
    groups: dict[str, list[int]] = field(default_factory=dict)
    purposes: dict[str, list[str]] = field(default_factory=dict)
    between: dict[str, str] = field(default_factory=dict)
    modules: dict[str, dict[str, int]] = field(default_factory=dict)
    peaks: dict[str, dict[str, Any]] = field(default_factory=dict)
    ending: Ending | None = None
    steps: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=STEPS))
    parts: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=PARTS))
    exchanges: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=exchanged.EXCHANGES))
    sent: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=expert_exchanges.SENT))

    @property
    def place(self) -> tuple[str, int, str]:
        """Return role, rank and actor, which identify a rank of a job. Ray actors without a rank all have rank 0."""
        return self.role, self.rank, self.actor if self.world_size <= 1 else ""


def account(measures: "Measures") -> RankAccount:
    """Return the account of a rank: the figures that the comparison of ranks needs.

    Args:
        measures: the measures of the rank's run.
    """
    recording, info = measures.recording, measures.recording.info
    processes: dict[str, Any] = recording.processes.sort(pl.col("role") != "main", "process").row(0, named=True)
    found, used = exchanged.exchanges(measures), measures.steps
    queued = scheduling.queued_by_step(recording.looks, used.process, used.table)
    groups = communication.ranks(recording.instants, recording.names)
    purposes = communication.purposes(recording.instants, recording.names)
    waits = stage_waits.by_step(measures, found, parallel_groups.of_kind(groups, purposes, parallel_groups.PIPELINE))
    gaps, (modules, peaks) = step_gaps.pieces(measures), module_times.times(measures)
    further = (queued, _ran(measures), step_uses.uses(measures), waits, stage_waits.in_messages(measures, found))
    return RankAccount(
        directory=recording.directory,
        rank=info.rank,
        world_size=info.world_size,
        host=info.host,
        boot=info.boot_id,
        started_ns=int(processes["first_ns"]),
        ended_ns=int(processes["last_ns"]),
        end=processes["state"],
        verdict=measures.verdict,
        uncertainty_ns=recording.clock.uncertainty_ns,
        role=info.role,
        actor=info.actor.get("actor", ""),
        attempt=info.attempt,
        job=info.job,
        saved=step_uses.saved(measures),
        loaded=step_uses.loaded(measures),
        stepped=measures.steps.source != StepSource.WHOLE_RUN,
        groups=groups,
        purposes=purposes,
        between=step_gaps.names(measures, gaps),
        modules=modules,
        peaks=peaks,
        ending=None if recording.foreign else ending.ending(measures, found),
        steps=_sure(steps_of(used.table, found, *further), _unseen(measures, found)),
        parts=_parts(measures, gaps),
        exchanges=found,
    )


def steps_of(table: pl.DataFrame, exchanges: pl.DataFrame, *further: pl.DataFrame) -> pl.DataFrame:
    """Return the steps of a rank, with the columns of `STEPS`.

    Exchanges that overlap in time form a block. The own time of a step is a sum over the blocks that begin in the step
    or between it and the step before:

        own = sum(start of the last exchange in the block - end of the block before)

    The formula needs only the clock of the rank. Work during the exchanges of a block counts as own time until the last
    of these exchanges starts.

    Args:
        table: `number`, `start_ns`, `end_ns` of steps, sorted by start.
        exchanges: the exchanges of the rank, with the columns of `exchanged.EXCHANGES`.
        further: tables with `step` and those columns of `STEPS` that do not follow from the exchanges. If no table has
            a column, the column is null.
    """
    block = (pl.col("start_ns") >= pl.col("end_ns").cum_max().shift(1)).fill_null(True).cum_sum()
    together = (
        exchanges.sort(*intervals.BOUNDS)
        .group_by(block.alias("block"), maintain_order=True)
        .agg(
            pl.col("step").first(),
            pl.col("start_ns").first(),
            pl.col("start_ns").last().alias("ready_ns"),
            pl.col("end_ns").max(),
        )
        .with_columns(own_ns=pl.col("ready_ns") - pl.col("end_ns").shift(1))
        .drop_nulls("step")
    )
    first = pl.lit(together["step"].min(), pl.Int64)
    sums = together.group_by("step").agg(
        pl.when(pl.col("step").first() > first).then(pl.col("own_ns").sum()).alias("own_ns"),
        (pl.col("end_ns") - pl.col("start_ns")).sum().alias("exchange_ns"),
    )
    numbered = table.select(pl.col("number").cast(pl.Int64).alias("step"), *intervals.BOUNDS)
    for known in (sums, *further):
        numbered = numbered.join(known, on="step", how="left", maintain_order="left")
    lacking = [pl.lit(None, kind).alias(name) for name, kind in STEPS.items() if name not in numbered.columns]
    return numbered.with_columns(lacking).select(STEPS.names()).cast(STEPS)


def _unseen(measures: "Measures", found: pl.DataFrame) -> pl.Series:
    """Return, for each step, whether the recording lacks exchanges of the step.

    If only some steps were sampled, the remaining steps have only the exchanges that the script called.

    Args:
        measures: the measures of the run.
        found: the recorded exchanges, with the columns of `exchanged.EXCHANGES`.
    """
    table, unseen = measures.steps.table, [tables.TIMES_ALONE]
    if measures.recording.device is None:
        called = communication.split(communication.called(measures.recording, measures.steps))
        calls = exchanged.steps(called["start_ns"], table).is_not_null().sum()
        if found["step"].is_not_null().sum() > calls:
            unseen.append(tables.COARSE)
    return table["content"].is_in(unseen).alias("unseen")


def _sure(steps: pl.DataFrame, unseen: pl.Series) -> pl.DataFrame:
    """Return the steps, with `unseen`, and with null as `own_ns` if the recording lacks exchanges during the own time.

    Args:
        steps: the steps, with the columns of `STEPS`.
        unseen: for each step, whether the recording lacks exchanges of the step, from `_unseen`.
    """
    count = unseen.cast(pl.Int64).cum_sum().alias("count")
    begin = pl.when(pl.col("exchange_ns").is_not_null()).then(pl.col("count") - unseen.cast(pl.Int64))
    own = pl.when(pl.col("count") == begin.forward_fill().shift(1)).then("own_ns").alias("own_ns")
    return steps.with_columns(count, unseen).with_columns(own).select(STEPS.names())


def _ran(measures: "Measures") -> pl.DataFrame:
    """Return `step` and `processor_ns` of each step; no rows if the CPU time is unknown."""
    table = measures.steps.table
    ran = host_load.amounts(host_load.shown(measures.recording), [host_metrics.USER, host_metrics.SYSTEM], table)
    if ran is None:
        return pl.DataFrame(schema={"step": pl.Int64, "processor_ns": pl.Int64})
    return table.select(pl.col("number").cast(pl.Int64).alias("step"), (ran * 1e9).cast(pl.Int64).alias("processor_ns"))


def _parts(measures: "Measures", gaps: pl.DataFrame) -> pl.DataFrame:
    """Return the time of each part in the selected steps and in the time before them, with the columns of `PARTS`."""
    pieces = measures.diagnosis.pieces
    if measures.recording.device is None:
        pieces = _with_stills(pieces, measures, measures.steps)
    numbers = measures.steps.table["number"]
    found = bounds.by_step(pieces)
    inside = found.select(numbers.gather(found["step"]).alias("step"), "part", "duration_ns").cast(PARTS)
    before = bounds.by_step(step_gaps.asleep(gaps, measures)).cast(PARTS)
    sums = pl.concat([inside, before]).group_by("step", "part").agg(pl.col("duration_ns").sum())
    return sums.sort("step", "part").select(PARTS.names())


def _with_stills(pieces: pl.DataFrame, measures: "Measures", steps: "Steps") -> pl.DataFrame:
    """Return the pieces, with the part `STILL` in the intervals in which the stepping thread stood still.

    If operators run in other threads, standing still is certain only in pieces without computing.
    """
    known = scheduling.asleep(scheduling.cells(measures.recording.looks, steps.process, steps.thread))
    still = intervals.union(known).filter(pl.col("end_ns") - pl.col("start_ns") >= STILL_NS)
    if still.is_empty():
        return pieces
    sure = pl.lit(not measures.host_operators.is_empty()) | (pl.col("part") != bounds.COMPUTING)
    can = pieces.filter(~pl.col("part").is_in(_WAITS), sure)
    found = intervals.intersect(can, still)
    found = found.filter(pl.col("end_ns") - pl.col("start_ns") >= STILL_NS)
    line = intervals.timeline({"row": pieces.with_row_index("number", 1), "still": found}, {"row": "number"})
    line = line.filter(pl.col("row") > 0)
    rows = pieces.with_row_index("row", 1).select(pl.col("row").cast(pl.Int64), "step", "part", "phase")
    part = pl.when(pl.col("still") > 0).then(pl.lit(STILL)).otherwise("part").alias("part")
    return line.join(rows, on="row", maintain_order="left").select("step", part, "phase", *intervals.BOUNDS)
