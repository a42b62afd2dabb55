"""Goodput: the part of a job's time in which it trained, and the uses of the rest, over all starts of its ranks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import polars as pl

from ms_profiler.analysis.cluster.rank_account import RankAccount

#: from the first record of a start to its first step; time before the first record belongs to no part, or, in a
#: later start, to `RESTARTS`
SET_UP: Final = "set-up"
#: steps that a start after them had to make again
LOST: Final = "lost steps"
#: from the last step of a start to the first record of the next start
RESTARTS: Final = "restarts"
WAITING: Final = "waiting"
CHECKPOINTS: Final = "checkpoints"
COMPILING: Final = "compiling"
BETWEEN: Final = "between steps"
ENDING: Final = "after the last step"
PARTS: Final = (SET_UP, RESTARTS, LOST, WAITING, CHECKPOINTS, COMPILING, BETWEEN, ENDING)


@dataclass(frozen=True)
class Start:
    """One start of the ranks of a job.

    Attributes:
        number: its place among the starts, from 0.
        ranks: the number of results.
        steps: the steps that the rank with most of them made.
        saved: the last step that a checkpoint of this start holds, -1 for none; None where none was written.
        lost: the steps whose results the next start does not have; None where that is unknown.
        loaded: whether it read a checkpoint.
        ends: the way in which each of its processes ended.
    """

    number: int
    ranks: int
    steps: int
    saved: int | None
    lost: int | None
    loaded: bool
    ends: tuple[str, ...]


@dataclass(frozen=True)
class Goodput:
    """The uses of the time of a job, as sums over its ranks.

    Attributes:
        ranks: the number of ranks.
        total_ns: the time from the first record of a rank to its last one.
        useful_ns: `total_ns` without `parts`.
        parts: ns of each of `PARTS`.
        starts: the starts, the first one first.
        remarks: a sentence for each thing that is not known.
    """

    ranks: int
    total_ns: int
    useful_ns: int
    parts: dict[str, int]
    starts: list[Start] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def goodput(accounts: Iterable[RankAccount]) -> Goodput | None:
    """Return the goodput of a job; None where no rank made a step.

    useful = time from a rank's first record to its last one - `PARTS`. Steps of a start count as lost from the last
    checkpoint of that start on. Waits for data or for other ranks that do not overlap with computing are no progress.

    Args:
        accounts: the accounts of all starts of its ranks.
    """
    starts: dict[int, list[RankAccount]] = {}
    for known in accounts:
        starts.setdefault(known.attempt, []).append(known)
    told = [_start(number, starts, place) for place, number in enumerate(sorted(starts))]
    if not any(start.steps for start in told):
        return None
    sums = dict.fromkeys(PARTS, 0)
    total = 0
    ranks: dict[int, list[tuple[Start, RankAccount]]] = {}
    for start, number in zip(told, sorted(starts), strict=True):
        for known in starts[number]:
            ranks.setdefault(known.rank, []).append((start, known))
    for runs in ranks.values():
        total += runs[-1][1].ended_ns - runs[0][1].started_ns
        for place, (start, known) in enumerate(runs):
            following = runs[place + 1][1] if place + 1 < len(runs) else None
            _add(sums, start, known, following)
    return Goodput(len(ranks), total, total - sum(sums.values()), sums, told, _remarks(told, list(starts.values())))


def _start(number: int, starts: dict[int, list[RankAccount]], place: int) -> Start:
    """Return one start; `number` is the launcher's, which lacks starts without a result."""
    members = starts[number]
    reached = [_steps(known).height for known in members]
    savers = [max(known.saved) for known in members if known.saved]
    saved = min(savers) if savers else None
    lost: int | None = 0
    if number != max(starts):
        # without any checkpoint in the records the job may keep its state in a way that they do not show
        told = any(known.saved or known.loaded for each in starts.values() for known in each)
        last = max(_steps(known).filter(_lost(saved)).height for known in members)
        lost = last if told else None
    ends = tuple(sorted({known.end for known in members if known.end}))
    loaded = any(known.loaded for known in members)
    return Start(place, len(members), max(reached), saved, lost, loaded, ends)


def _steps(known: RankAccount) -> pl.DataFrame:
    return known.steps if known.stepped else known.steps.head(0)


def _lost(saved: int | None) -> pl.Expr:
    return pl.lit(True) if saved is None else pl.col("step") > saved


def _add(sums: dict[str, int], start: Start, known: RankAccount, following: RankAccount | None) -> None:
    """Add the time of one rank in one start to the sums."""
    gap = 0 if following is None else max(following.started_ns - known.ended_ns, 0)
    steps = _steps(known)
    if steps.is_empty():
        sums[SET_UP] += known.ended_ns - known.started_ns
        sums[RESTARTS] += gap
        return
    first, last = int(steps["start_ns"][0]), int(steps["end_ns"][-1])
    length = pl.col("end_ns") - pl.col("start_ns")
    lost = steps.filter(_lost(start.saved)) if start.lost else steps.head(0)
    counted = steps.join(lost.select("step"), on="step", how="anti")
    sums[SET_UP] += first - known.started_ns
    sums[LOST] += int(lost.select(length.sum()).item() or 0)
    sums[BETWEEN] += last - first - int(steps.select(length.sum()).item() or 0)
    for part, column in ((WAITING, "waiting_ns"), (CHECKPOINTS, "checkpoint_ns"), (COMPILING, "compile_ns")):
        sums[part] += int(counted[column].sum() or 0)
    sums[ENDING if following is None else RESTARTS] += known.ended_ns - last + gap


def _remarks(starts: Sequence[Start], members: Sequence[Sequence[RankAccount]]) -> list[str]:
    told = []
    for start, following in pairwise(starts):
        if start.lost is None:
            told.append(
                f"No checkpoint was recorded: it is unknown which of the {start.steps} steps of start "
                f"{start.number + 1} were made again."
            )
        elif start.saved is not None and start.saved >= 0 and following.steps and not following.loaded:
            told.append(
                f"Start {following.number + 1} read no checkpoint that was recorded: it may have made again more than "
                f"the {start.lost} steps that start {start.number + 1} had not saved."
            )
    unknown = sum(_steps(known)["waiting_ns"].null_count() for each in members for known in each)
    if unknown:
        told.append(f"The waits in {unknown} steps are not known; these steps count as training.")
    return told
