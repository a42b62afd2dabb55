"""Notice that the length of steps has changed, although other programs disturb the job.

The lower quartile of the lengths of some hundred steps hardly depends on what else runs on the machine: under a load
that doubled the mean length, it varied by 0.3 %. So it shows small changes. A larger change of half of the steps shows
in the median.
"""

from collections import deque
from typing import Final

#: quantile -> factor. The length of steps has changed if the quantile differs by this factor from the usual value, in
#: two blocks one after another and in the same direction.
MOVED: Final = {0.25: 0.02, 0.5: 0.08}
#: The quantile must also differ by this multiple of its mean deviation.
CLEAR: Final = 4
#: smallest and largest number of blocks with which these two blocks are compared
SOME: Final = 4
MANY: Final = 8
#: smallest number of steps of a block
LEAST: Final = 64


class Levels:
    """Compare quantiles of the lengths of steps in one block after another."""

    def __init__(self) -> None:
        self._known: dict[float, deque[int]] = {part: deque(maxlen=MANY + 2) for part in MOVED}

    def changed(self, lengths: list[int]) -> bool:
        """Return whether the length of steps has changed; if so, begin anew.

        Args:
            lengths: the lengths of the steps of the next block, ns. A block of fewer than `LEAST` steps is ignored.
        """
        if len(lengths) < LEAST:
            return False
        lengths = sorted(lengths)
        for part, known in self._known.items():
            known.append(lengths[int(part * len(lengths))])
        if not any(_differs([*known], MOVED[part]) for part, known in self._known.items()):
            return False
        for known in self._known.values():
            known.clear()
        return True


def _differs(values: list[int], factor: float) -> bool:
    """Return whether the last two values are both above or both below what is usual, by the factor or more."""
    usual, newest = sorted(values[:-2]), values[-2:]
    if len(usual) < SOME:
        return False
    middle = usual[len(usual) // 2]
    least = max(factor * middle, CLEAR * sum(abs(value - middle) for value in usual) / len(usual))
    return min(newest) - middle > least or middle - max(newest) > least
