"""Find out whether memory grows with each step, and tell a leak from a heap that stops growing."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, cast

import polars as pl

from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables

#: number of samples that is needed to see a trend
ENOUGH: Final = 8
#: number of equal blocks into which the steps are divided; the first block does not count, because caches fill there
BLOCKS: Final = 4
#: growth is a leak only if min(growth of a block) / max(growth of a block) is at least this value. A heap that settles
#: has a smaller ratio, because it grows less and less
EVEN: Final = 0.4
#: If the growth of a run has several rates, its last half, or its last three quarters, are examined alone. This part
#: must grow nearly as much in each block: a heap that settles looks more even, the shorter the examined part is
LATER: Final = (0.25, 0.5)
LATER_EVEN: Final = 0.9
#: smallest growth of a leak, in bytes, and as a share of the memory before the growth. Smaller growth may be chance: a
#: heap of 240 MB, fragmented by batches of workers, grew by 10 MB in 22 steps
LEAST: Final = 16 << 20
LEAST_PART: Final = 0.05
#: memory must grow by this many times as much as it shrinks at most from an earlier to a later sample. A heap in which
#: batches of 8.5 MB came and went grew by two of them in 16 steps, and had shrunk by one of them between
OVER_SHRINKING: Final = 3.0


@dataclass(frozen=True)
class Growth:
    """Memory that grows with each step.

    Attributes:
        per_step: average number of bytes that each step adds.
        total: bytes added from the first to the last examined sample.
        held: bytes held at the last examined sample.
        first: number of the first examined step.
        last: number of the last examined step.
        tensors: whether the memory of tensors was examined, and not the memory of the whole process.
        device: the device whose memory was examined; empty for the memory of the host.
    """

    per_step: float
    total: int
    held: int
    first: int
    last: int
    tensors: bool = False
    device: str = ""


def growth(
    samples: pl.DataFrame, steps: Steps, compiled: list[int], least: int = LEAST, least_part: float = LEAST_PART
) -> Growth | None:
    """Return the memory that each step adds; None if there is no evident growth.

    Samples are taken between steps. Growth in steps that compiled something comes from compilers, and does not count.
    The other steps are divided into `BLOCKS` blocks with equal numbers of steps; the first block does not count. The
    growth is evident if, for the remaining blocks,

        min(growth of a block per step) >= `EVEN` * max(growth of a block per step)
        growth of all these blocks >= max(`least`, `least_part` * memory before these blocks)
        growth of all these blocks >= `OVER_SHRINKING` * (greatest decrease from a sample to a later one)

    If the memory grows in all remaining blocks, but not evenly, its rate may have changed. Then the same is examined
    for the last parts of the run that begin at `LATER`, with `LATER_EVEN` in place of `EVEN`.

    Then

        per step = growth of all these blocks / number of their steps

    Args:
        samples: memory of the stepping process: `time_ns`, `held` (bytes), sorted by time.
        steps: the steps in use.
        compiled: steps (rows of `steps.table`) that compiled something.
        least: smallest growth of a leak, in bytes.
        least_part: smallest growth of a leak, as a share of the memory before the growth.
    """
    ends = steps.table.select("number", pl.col("end_ns").alias("time_ns"), row=pl.int_range(pl.len())).sort("time_ns")
    # a sample is taken right after the end of a step, so it belongs to the step that ended last
    placed = samples.sort("time_ns").join_asof(ends, on="time_ns").drop_nulls("row")
    if placed.height < ENOUGH:
        return None
    # `quiet`: nothing was compiled between a sample and the previous sample
    seen = pl.Series("compiled", sorted(compiled), dtype=pl.Int64).search_sorted(placed["row"], side="right")
    quiet = seen == seen.shift(1)
    added = (placed["held"] - placed["held"].shift(1)).cast(pl.Float64)
    walked = placed.with_columns(
        added=pl.when(quiet).then(added).otherwise(0.0).fill_null(0.0).cum_sum(),
        took=pl.when(quiet).then(pl.col("row") - pl.col("row").shift(1)).otherwise(0).fill_null(0).cum_sum(),
    ).filter(quiet.fill_null(True))
    whole, rates = _even(walked, least, least_part, EVEN)
    if whole is not None or not rates or min(rates) <= 0:
        return whole
    parts = (walked.filter(pl.col("took") >= round(part * walked["took"][-1])) for part in LATER)
    found = (_even(part, least, least_part, LATER_EVEN)[0] for part in parts)
    return next((each for each in found if each is not None), None)


def _even(walked: pl.DataFrame, least: int, least_part: float, even: float) -> tuple[Growth | None, list[float]]:
    """Return the growth of memory if it is even, and the growth of each examined block per step.

    Args:
        walked: the samples in quiet steps: `held` and `added` (bytes), `took` (number of quiet steps so far), `number`.
        least: smallest growth of a leak, in bytes.
        least_part: smallest growth of a leak, as a share of the memory before the growth.
        even: smallest ratio of the growth of two blocks.
    """
    if walked.height < ENOUGH:
        return None, []
    took = walked["took"] - walked["took"][0]
    bounds = [took.search_sorted(round(block * took[-1] / BLOCKS)) for block in range(BLOCKS + 1)]
    levels, steps_taken = walked["added"].gather(bounds).to_list(), took.gather(bounds).to_list()
    lengths = [after - before for before, after in pairwise(steps_taken[1:])]
    if min(lengths) <= 0:
        return None, []
    blocks = [after - before for before, after in pairwise(levels[1:])]
    rates = [grown / length for grown, length in zip(blocks, lengths, strict=True)]
    total, count = sum(blocks), sum(lengths)
    held = int(walked["held"][-1])
    if total < max(least, least_part * (held - total)) or min(rates) < even * max(rates):
        return None, rates
    examined = walked["added"][bounds[1] :]
    if total < OVER_SHRINKING * cast(float, (examined.cum_max() - examined).max()):
        return None, rates
    first, last = int(walked["number"][bounds[1]]), int(walked["number"][-1])
    return Growth(total / count, round(total), held, first, last), rates


def kernels_since(times: pl.Series, windows: list[tables.Window], starts: pl.Series) -> pl.Series:
    """Return how many kernels started from the begin of each time's window to the time; 0 outside of all windows.

    Args:
        times: times in ns, sorted.
        windows: the windows of one process, sorted by start; where two overlap, the later one counts.
        starts: the starts of kernels in ns, sorted.
    """
    begins = pl.Series([window.start_ns for window in windows], dtype=pl.Int64)
    ends = pl.Series([window.end_ns for window in windows], dtype=pl.Int64)
    places = zip(
        times.search_sorted(begins, side="left"),
        times.search_sorted(ends, side="left"),
        starts.search_sorted(begins, side="left"),
        strict=True,
    )
    before: list[int | None] = [None] * len(times)
    for first, last, count in places:
        before[first:last] = [count] * (last - first)
    began = starts.search_sorted(times, side="left").cast(pl.Int64)
    return (began - pl.Series(before, dtype=pl.Int64)).fill_null(0)
