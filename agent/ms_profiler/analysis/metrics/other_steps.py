"""Say how the time of all steady steps is divided, though the operators of only some steps are known.

Operators are known only in the steps that were sampled (recorded). Of a large recording, the analysis keeps only the
operators of some steps in memory. So the parts of a step, such as computing, are known in these steps alone. But a job
may write a checkpoint in every 50th step, and chance decides how many of these steps are sampled. And the slowest steps
are among those that stay in memory. So the time of each phase is taken from all steps in which it is known, and only
the parts of a phase from the examined steps:

    share of a part = sum over phases of (share of the phase in all steps * share of the part in the phase)
"""

from dataclasses import dataclass
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import bounds, intervals, known_waits, phases, sampling
from ms_profiler.analysis.metrics.steps import WARMED, Steps, settled, stepping
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category

#: the share of a phase's time that must lie in examined steps if its parts there are to stand for the phase
SEEN: Final = 0.001


@dataclass(frozen=True)
class Unsampled:
    """The steady steps of a run that were not sampled.

    Attributes:
        times: the times of the phases in `known_waits.KNOWN` in them: `step` (row of `Steps.table`), `phase`,
            `duration_ns`.
        length_ns: the sum of their durations.
        rows: their rows.
    """

    times: pl.DataFrame
    length_ns: int
    rows: pl.Series

    @property
    def count(self) -> int:
        """Return the number of these steps."""
        return self.rows.len()


@dataclass(frozen=True)
class AllSteps:
    """What is known of all steady steps of a run, though the operators of only some of them are known.

    Attributes:
        shares: phase -> its share of the time of these steps.
        waits: the times of `bounds.GARBAGE` and of the phases in `known_waits.KNOWN`: `step` (row of `Steps.table`),
            `phase`, `duration_ns`.
        rows: the rows of the steady steps.
        collecting: the share of their time in which Python collected garbage.
        examined: the same share of the time of the examined steps.
    """

    shares: dict[str, float]
    waits: pl.DataFrame
    rows: pl.Series
    collecting: float = 0.0
    examined: float = 0.0

    @property
    def count(self) -> int:
        """Return the number of steady steps."""
        return self.rows.len()


def unsampled(spans: pl.DataFrame, steps: Steps) -> Unsampled | None:
    """Return the steady steps that were not sampled; None if there are none.

    Args:
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        steps: the steps in use.
    """
    coarse = left_out(spans, steps)
    if coarse is None or coarse.is_empty():
        return None
    calm = coarse.filter(~pl.col("compiles"))
    chosen = coarse if calm.is_empty() else calm
    times = known_waits.waits(spans, steps).filter(pl.col("step").is_in(chosen["row"].implode()))
    return Unsampled(times, int(chosen["duration_ns"].sum()), chosen["row"])


def fetches(spans: pl.DataFrame, steps: Steps, examined: list[int]) -> pl.DataFrame:
    """Return the spans of the stepping thread that wait for data in all steps from the first examined one on.

    Args:
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        steps: the steps in use.
        examined: the rows of the examined steps.
    """
    own = stepping(spans, steps, Category.DATA)
    return own.filter(intervals.locate(own["start_ns"], steps.table[min(examined, default=0) :]).is_not_null())


def left_out(spans: pl.DataFrame, steps: Steps) -> pl.DataFrame | None:
    """Return the steps that were not sampled, without the first steps; None if every step was sampled.

    Args:
        spans: table of the run's spans, with the columns of `tables.SPANS`.
        steps: the steps in use.

    Returns:
        The columns of `Steps.table`, `row`, and `compiles`: whether something was compiled in the step.
    """
    if not sampling.sampled(steps):
        return None
    every = steps.table.with_row_index("row")
    compiling = stepping(spans, steps, Category.COMPILE)
    rows = every["row"].gather(intervals.locate(compiling["start_ns"], every).drop_nulls())
    coarse = every.filter(pl.col("content") == tables.COARSE, pl.col("row") >= WARMED)
    return coarse.with_columns(compiles=pl.col("row").is_in(rows.implode()))


def of_phases(times: pl.DataFrame, beside: Unsampled | None) -> dict[str, float]:
    """Return the share of each phase in the time of all steady steps.

    A phase of `known_waits.KNOWN` has its time in all steps. The others divide the rest as they do in the recorded
    steps.

    Args:
        times: the time of each phase in the recorded steady steps: `phase`, `duration_ns`.
        beside: the steady steps that were not sampled; None if there are none.
    """
    sums: dict[str, float] = dict(times.group_by("phase").agg(pl.col("duration_ns").sum()).iter_rows())
    if beside is not None:
        more: dict[str, int] = dict(beside.times.group_by("phase").agg(pl.col("duration_ns").sum()).iter_rows())
        others = sum(ns for phase, ns in sums.items() if phase not in known_waits.KNOWN)
        rest = beside.length_ns - sum(more.values())
        if others:
            sums = {phase: ns if phase in known_waits.KNOWN else ns * (1 + rest / others) for phase, ns in sums.items()}
        elif rest > 0:
            sums[phases.OTHER] = rest
        sums |= {phase: sums.get(phase, 0) + ns for phase, ns in more.items()}
    whole = max(sum(sums.values()), 1)
    return {phase: ns / whole for phase, ns in sums.items()}


def every(
    spans: pl.DataFrame,
    steps: Steps,
    cut: pl.DataFrame,
    examined: list[int],
    disturbed: list[int],
    thinned: bool,
    collections: pl.DataFrame,
) -> AllSteps | None:
    """Return what is known of all steady steps; None if all of them are examined.

    Args:
        spans: the spans of the chosen steps, with the columns of `tables.SPANS`.
        steps: the steps in use.
        cut: the steps cut into phases, from `phases.pieces`.
        examined: the rows of the examined steps.
        disturbed: the rows of steps that are not steady, see `steps.settled`.
        thinned: whether steps are not examined because their operators or kernels do not fit into memory.
        collections: intervals in which Python collected garbage.
    """
    rows, beside = examined, unsampled(spans, steps)
    if thinned:
        rows = settled(steps.table.with_row_index("row").filter("recorded"), disturbed, steps.source)
    if not rows or (beside is None and len(rows) == len(examined)):
        return None
    times = phases.by_step(cut.filter(pl.col("step").is_in(rows)))
    examined_row, every_row = pl.Series(examined, dtype=pl.UInt32), pl.Series(rows, dtype=pl.UInt32)
    if beside is not None:
        every_row = pl.concat([every_row, beside.rows.cast(pl.UInt32)])
    table = steps.table.with_row_index("step")
    place = intervals.locate(collections["start_ns"], table)
    ends = pl.min_horizontal("end_ns", table["end_ns"].gather(place))
    collected = collections.select(
        step=table["step"].gather(place), phase=pl.lit(bounds.GARBAGE), duration_ns=ends - pl.col("start_ns")
    ).filter(pl.col("step").is_in(every_row.implode()))
    known = [
        times.filter(pl.col("phase").is_in(known_waits.KNOWN)),
        collected,
        *([] if beside is None else [beside.times]),
    ]
    shares = [
        int(collected.filter(pl.col("step").is_in(some.implode()))["duration_ns"].sum())
        / max(int(table.filter(pl.col("step").is_in(some.implode()))["duration_ns"].sum()), 1)
        for some in (every_row, examined_row)
    ]
    return AllSteps(of_phases(times, beside), pl.concat(known, how="vertical_relaxed"), every_row, *shares)


def shares(pieces: pl.DataFrame, label: str, cut: pl.DataFrame, every: AllSteps) -> dict[str, float]:
    """Return the share of each part in the time of all steady steps, by the formula above.

    Garbage collections are recorded in all steps, too, but they are a part of a step, and no phase. So their share is
    known, and the other parts divide the rest.

    Args:
        pieces: the examined steps cut into pieces without overlap: the column `label`, `start_ns`, `end_ns`.
        label: the name of the column with the parts.
        cut: the examined steps cut into phases, from `phases.pieces`.
        every: what is known of all steady steps.
    """
    codes = {name: code for code, name in enumerate(pieces[label].unique().sort(), 1)}
    numbers = {phase: code for code, phase in enumerate(phases.ALL, 1)}
    coded = {
        "part": pieces.with_columns(code=pl.col(label).replace_strict(codes, return_dtype=pl.Int64)),
        "phase": cut.with_columns(code=pl.col("phase").replace_strict(numbers, return_dtype=pl.Int64)),
    }
    line = intervals.timeline(coded, {"part": "code", "phase": "code"}).filter(pl.col("part") > 0)
    length = (pl.col("end_ns") - pl.col("start_ns")).sum()
    # a step of a device may last longer than that of the host: there, no phase is known
    phase = pl.col("phase").replace_strict(dict(enumerate(phases.ALL, 1)), default=phases.OTHER, return_dtype=pl.String)
    part = pl.col("part").replace_strict(dict(enumerate(codes, 1)), return_dtype=pl.String)
    summed = line.group_by(phase.alias("phase"), part.alias("part")).agg(length.alias("ns"))
    summed = summed.with_columns(share=pl.col("ns") / pl.col("ns").sum().over("phase"), whole=pl.col("ns").sum())
    seen = summed.filter(pl.col("ns").sum().over("phase") >= SEEN * pl.col("whole"))
    result: dict[str, float] = {}
    for name, inside in every.shares.items():
        own = seen.filter(pl.col("phase") == name).select("part", "share").rows()
        # if no examined step has the phase, it is a part of its own, as waits and checkpoints are
        alone = [(name if name in bounds.PARTS else bounds.UNKNOWN, 1.0)]
        for kind, share in own or alone:
            result[kind] = result.get(kind, 0.0) + inside * share
    return _with_collections(result, pieces, label, every)


def _with_collections(shares: dict[str, float], pieces: pl.DataFrame, label: str, every: AllSteps) -> dict[str, float]:
    """Return the shares with that of garbage collections in all steady steps.

    The phases of `known_waits.KNOWN` keep their shares.

    Of a collection, the same share counts as in the examined steps: none of it does while a device computes.

    Args:
        shares: part -> its share.
        pieces: the examined steps cut into pieces: the column `label`, `start_ns`, `end_ns`.
        label: the name of the column with the parts.
        every: what is known of all steady steps.
    """
    length = pl.col("end_ns") - pl.col("start_ns")
    counted = pieces.select(length.filter(pl.col(label) == bounds.GARBAGE).sum() / length.sum()).item() or 0.0
    visible = min(counted / every.examined, 1.0) if every.examined else 1.0
    exact = {part: share for part, share in shares.items() if part in known_waits.KNOWN}
    others = {part: share for part, share in shares.items() if part not in (*known_waits.KNOWN, bounds.GARBAGE)}
    left = 1 - sum(exact.values())
    collecting = min(every.collecting * visible, left)
    factor = (left - collecting) / (sum(others.values()) or 1.0)
    found = exact | {part: share * factor for part, share in others.items()}
    return found | ({bounds.GARBAGE: collecting} if collecting else {})


def steady_phases(times: pl.DataFrame, steady: list[int], beside: Unsampled | None) -> pl.DataFrame:
    """Add up the time of each phase as `phases.shares` does; each `steady_share` is a share of all steady steps.

    `steady_ns` is this share of the mean length of all steady steps. So it leaves out the cost of recording a step.

    Args:
        times: the time of each phase in each recorded step, from `phases.by_step`.
        steady: the rows of the recorded steady steps.
        beside: the steady steps that were not sampled; None if there are none.
    """
    summed = phases.shares(times, sorted(set(times["step"].to_list()).difference(steady)))
    inside = times.filter(pl.col("step").is_in(steady))
    if beside is None or inside.is_empty():
        return summed
    count = inside["step"].n_unique() + beside.count
    mean = (int(inside["duration_ns"].sum()) + beside.length_ns) / count
    every_share = of_phases(inside, beside)
    every = pl.DataFrame({"phase": phases.ALL}).filter(pl.col("phase").is_in([*summed["phase"], *every_share]))
    share = pl.col("phase").replace_strict(every_share, default=0.0, return_dtype=pl.Float64)
    joined = every.join(summed, on="phase", how="left", maintain_order="left")
    return joined.with_columns(steady_share=share, steady_ns=share * mean).with_columns(
        pl.col("total_ns", "share", "steady_ns").fill_null(0)
    )
