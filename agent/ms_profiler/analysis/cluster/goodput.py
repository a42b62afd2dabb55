"""Goodput: the share of a job's time in which it trained, and what took the rest, over all starts of its ranks.

A start is one attempt of a launcher to run the ranks: the first attempt, or a restart after a failure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import polars as pl

from ms_profiler.analysis.cluster.rank_account import RankAccount

#: time from the first record of a start of the ranks to its first step. The time before the first record is not counted
#: in the job's first start; in later starts it belongs to `RESTARTS`
SET_UP: Final = "set-up"
#: time of steps that a later start had to repeat
LOST: Final = "lost steps"
#: time from the last step of one start of the ranks to the first record of the next start
RESTARTS: Final = "restarts"
WAITING: Final = "waiting"
CHECKPOINTS: Final = "checkpoints"
COMPILING: Final = "compiling"
BETWEEN: Final = "between steps"
ENDING: Final = "after the last step"
PARTS: Final = (SET_UP, RESTARTS, LOST, WAITING, CHECKPOINTS, COMPILING, BETWEEN, ENDING)


@dataclass(frozen=True)
class Start:
    """One start of the ranks of a job: the first attempt to run them, or a restart.

    Attributes:
        number: its index among the starts, from 0.
        ranks: the number of results of its ranks.
        steps: the largest number of steps that a rank made.
        saved: the last step that every rank with a checkpoint has saved; -1 if one of these ranks has saved no step.
            None if no rank wrote a checkpoint.
        lost: the number of steps whose results the next start does not have; None if unknown.
        loaded: whether it read a checkpoint.
        ends: the ways in which its processes ended, each once.
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
        total_ns: the time from the first to the last record of a rank, summed over the ranks.
        useful_ns: the time in which the job trained: `total_ns` minus the time of all `parts`.
        parts: part, one of `PARTS` -> its time, in ns.
        starts: the starts of the ranks, in the order in which they began.
        remarks: a sentence for each fact that is unknown.
    """

    ranks: int
    total_ns: int
    useful_ns: int
    parts: dict[str, int]
    starts: list[Start] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def goodput(accounts: Iterable[RankAccount]) -> Goodput | None:
    """Return the goodput of a job, which is the share of its time in which it trained; None if no rank made a step.

        useful = time from the rank's first record to its last record - time of all `PARTS`

    If the job was started again, the steps that a start made after its last checkpoint count as lost. A wait for data
    or for other ranks is not useful. If the rank computes at the same time, however, the time is useful.

    Args:
        accounts: the figures (accounts) of all starts of the job's ranks.
    """
    starts: dict[int, list[RankAccount]] = {}
    for known in accounts:
        starts.setdefault(known.attempt, []).append(known)
    summaries = [_start(number, starts, place) for place, number in enumerate(sorted(starts))]
    if not any(start.steps for start in summaries):
        return None
    sums = dict.fromkeys(PARTS, 0)
    total = 0
    ranks: dict[int, list[tuple[Start, RankAccount]]] = {}
    for start, number in zip(summaries, sorted(starts), strict=True):
        for known in starts[number]:
            ranks.setdefault(known.rank, []).append((start, known))
    for runs in ranks.values():
        total += runs[-1][1].ended_ns - runs[0][1].started_ns
        for place, (start, known) in enumerate(runs):
            following = runs[place + 1][1] if place + 1 < len(runs) else None
            _add(sums, start, known, following)
    return Goodput(
        len(ranks), total, total - sum(sums.values()), sums, summaries, _remarks(summaries, list(starts.values()))
    )


def _start(number: int, starts: dict[int, list[RankAccount]], place: int) -> Start:
    """Return the facts about one start of the ranks of a job.

    Args:
        number: the number that the launcher gave the start.
        starts: number of a start with a result -> the accounts (figures) of its ranks.
        place: the index of the start among the starts with a result.
    """
    members = starts[number]
    reached = [_steps(known).height for known in members]
    savers = [max(known.saved) for known in members if known.saved]
    saved = min(savers) if savers else None
    lost: int | None = 0
    if number != max(starts):
        # a job without recorded checkpoints may save its state in another way, so the lost steps are unknown
        saves_known = any(known.saved or known.loaded for each in starts.values() for known in each)
        last = max(_steps(known).filter(_lost(saved)).height for known in members)
        lost = last if saves_known else None
    ends = tuple(sorted({known.end for known in members if known.end}))
    loaded = any(known.loaded for known in members)
    return Start(place, len(members), max(reached), saved, lost, loaded, ends)


def _steps(known: RankAccount) -> pl.DataFrame:
    return known.steps if known.stepped else known.steps.head(0)


def _lost(saved: int | None) -> pl.Expr:
    return pl.lit(True) if saved is None else pl.col("step") > saved


def _add(sums: dict[str, int], start: Start, known: RankAccount, following: RankAccount | None) -> None:
    """Add the time of one rank in one start to the sums. `following` is the account of its next start, or None."""
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
    sentences = []
    for start, following in pairwise(starts):
        if start.lost is None:
            sentences.append(
                f"No checkpoint was recorded: it is unknown which of the {start.steps} steps of start "
                f"{start.number + 1} were repeated."
            )
        elif start.saved is not None and start.saved >= 0 and following.steps and not following.loaded:
            sentences.append(
                f"Start {following.number + 1} read no recorded checkpoint: it may have repeated more than "
                f"the {start.lost} steps that start {start.number + 1} had not saved."
            )
    unknown = sum(_steps(known)["waiting_ns"].null_count() for each in members for known in each)
    if unknown:
        sentences.append(f"The waits in {unknown} steps are not known; these steps count as training.")
    return sentences
