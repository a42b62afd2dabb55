"""Find the place at which a series of counts has one change: one count before it, and another one from it on."""

import itertools
import statistics
from typing import Final

#: largest part of the counts on either side of the change that may differ from the other counts there
STRAY: Final = 0.05


def filled(places: list[int], values: list[int], whole: int) -> list[int]:
    """Return a series with 0 at the places without a value.

    Args:
        places: the places of the values.
        values: the values.
        whole: the length of the series.
    """
    series = [0] * whole
    for place, value in zip(places, values, strict=True):
        series[place] = value
    return series


def is_steady(series: list[int], side: int) -> bool:
    """Return whether nearly all counts are the same, those at both ends of the series included.

    Args:
        series: the counts.
        side: the number of counts at an end of which one must be the same as elsewhere.
    """
    usual = statistics.mode(series)
    ends = series[:side], series[-side:]
    return series.count(usual) >= (1 - STRAY) * len(series) and all(usual in end for end in ends)


def jump(series: list[int], side: int) -> int | None:
    """Return the place before which a series has one count, and from which on it has another one; None without one.

    Args:
        series: the counts.
        side: smallest number of counts before the place, and after it.
    """
    before, after = statistics.mode(series[:side]), statistics.mode(series[-side:])
    if before == after:
        return None
    # each place: wrong counts before it, if all of them should be `before`, and from it on
    wrong = [0, *itertools.accumulate(value != before for value in series)]
    right = [0, *itertools.accumulate(value != after for value in series)]
    at = min(range(len(series) + 1), key=lambda place: wrong[place] + right[-1] - right[place])
    strays = wrong[at], right[-1] - right[at]
    sides = at, len(series) - at
    if min(sides) < side or any(stray > STRAY * count for stray, count in zip(strays, sides, strict=True)):
        return None
    return at
