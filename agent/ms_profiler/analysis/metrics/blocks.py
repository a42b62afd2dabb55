"""Find where the level of a noisy series changes for good, from the medians of blocks of values."""

import itertools
import statistics
from typing import Any, Final

import polars as pl

#: largest and smallest number of blocks into which a series is cut
MOST: Final = 200
LEAST: Final = 16
#: smallest number of blocks on either side of a change
SIDE: Final = 4
#: The blocks next to the change, `BESIDE` of the shorter side but at least two, must show at least the part `ABRUPT` of
#: it. Those of a series that grows evenly show a quarter.
BESIDE: Final = 0.25
ABRUPT: Final = 0.6


def medians(values: list[Any], size: int) -> list[float]:
    """Return the median of each complete block of `size` values."""
    return [statistics.median(values[at : at + size]) for at in range(0, len(values) - size + 1, size)]


def quartile(values: list[Any]) -> Any:
    """Return the lower quartile of values. For lengths of steps, it hardly depends on what else runs."""
    return sorted(values)[len(values) // 4]


def quartiles(values: list[Any], size: int) -> list[float]:
    """Return the lower quartile of each complete block of `size` values."""
    return [quartile(values[at : at + size]) for at in range(0, len(values) - size + 1, size)]


def misfit(values: list[float]) -> float:
    """Return the sum of the absolute deviations from the median."""
    middle = statistics.median(values)
    return sum(abs(value - middle) for value in values)


def jump(values: list[float], before: float, after: float) -> int:
    """Return the index from which on most values lie nearer to `after` than to `before`.

    If two indices are equally good, the one that makes fewer values large counts: disturbed steps are longer.

    Args:
        values: the series, in order.
        before: the level of the values before the index.
        after: the level of the values from the index on.
    """
    level, rises = (before + after) / 2, after > before
    passed = [0, *itertools.accumulate(1 if (value > level) == rises else -1 for value in values)]
    best = [index for index, sum_ in enumerate(passed) if sum_ == min(passed)]
    return best[-1 if rises else 0]


def change(
    values: list[float], size: int, clear: float, least: float, fewest: int = LEAST
) -> tuple[int, float, float, float] | None:
    """Find the index from which on the values of a series differ; None if no change is significant.

    The change lies where two constants, one before and one after it, fit the medians of the blocks best (least sum of
    absolute deviations). A series that changes little by little has no such index. The result has four parts: the
    index, the median before it, the median from it on, and the significance: change / spread. On either side of the
    change, spread = mean(|x - median(x)|) for the medians x of the blocks; the larger spread counts.

    Args:
        values: the series, in order.
        size: the size of a block.
        clear: the smallest significance that is accepted.
        least: the smallest change that is accepted.
        fewest: the smallest number of blocks.
    """
    found = medians(values, size)
    if len(found) < fewest:
        return None
    block = min(range(SIDE, len(found) - SIDE + 1), key=lambda at: misfit(found[:at]) + misfit(found[at:]))
    before, after = statistics.median(found[:block]), statistics.median(found[block:])
    spread = max(misfit(found[:block]) / block, misfit(found[block:]) / (len(found) - block))
    moved = abs(after - before)
    if moved < max(least, clear * spread) or not _abrupt(found, block, after - before):
        return None
    first = max((block - 1) * size, 0)
    at = first + jump(values[first : first + 2 * size], before, after)
    return min(at, len(values) - 1), before, after, moved / max(spread, 1e-9)


def dense(long: pl.Series, often: float, weights: pl.Series | None = None) -> tuple[int, int]:
    """Return the first and the last index of the series in which at least a part of the values is long.

    It is the series with the largest sum of (1 - `often`) for each long value and -`often` for each other one. If no
    value is long, it is the first value alone.

    Args:
        long: whether each value is long.
        often: the part, from 0 to 1.
        weights: how often each value counts; None for once.
    """
    gains = long.cast(pl.Float64) - often
    sums = (gains if weights is None else gains * weights).cum_sum()
    before = sums.shift(1, fill_value=0.0)
    last = (sums - before.cum_min()).arg_max() or 0
    return last - (before.head(last + 1).reverse().arg_min() or 0), last


def _abrupt(found: list[float], block: int, moved: float) -> bool:
    """Return whether the medians of blocks jump at `block` by most of the change `moved` between both sides."""
    near = max(2, int(BESIDE * min(block, len(found) - block)))
    jumped = statistics.median(found[block : block + near]) - statistics.median(found[block - near : block])
    return jumped / moved >= ABRUPT
