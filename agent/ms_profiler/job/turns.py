"""Find the cycle of several optimizers, or training cells, that makes up a step."""

import weakref
from collections.abc import Hashable, Sequence
from typing import Any

from ms_profiler.job.boundaries import PENDING, Track

#: this many consecutive calls, after the length was known, are another part of the training and not a part of a longer
#: step
LATE = 8


def cycle_length(calls: Sequence[Hashable], known: int) -> int:
    """Return the period of a sequence of optimizer calls, 0 while it is unknown.

    Args:
        calls: the optimizer of each call, in order.
        known: number of optimizers that the job made; with one, every call ends a step.

    A period counts once it was seen twice and every known optimizer has been called.
    """
    if known <= 1 and calls:
        return 1
    if len(set(calls)) < known:
        return 0
    for period in range(known, len(calls) // 2 + 1):
        if all(calls[index] == calls[index - period] for index in range(period, len(calls))):
            return period
    return 0


def unrepeated(calls: Sequence[Hashable]) -> int:
    """Return the period of a sequence that ended before its cycle repeated.

    A sequence in which something was called only once is one cycle. Otherwise the job trained one thing after the
    other, and each call is a step.

    Args:
        calls: as of `cycle_length`, at least one.
    """
    period = cycle_length(calls, len(set(calls)))
    if period:
        return period
    if all(calls.count(which) > 1 for which in set(calls)):
        return 1
    return next(
        period
        for period in range(len(set(calls)), len(calls) + 1)
        if all(calls[index] == calls[index - period] for index in range(period, len(calls)))
    )


class Turns:
    """Calls of optimizers or training cells: a step ends when all have been called, in their order.

    Attributes:
        calls: calls since the last end of a step; all calls, while `length` is unknown.
        length: calls of a step; 0 while it is unknown.
        lone: the only one that is called, once per step; None if there are several, or the length is unknown.
    """

    __slots__ = ("_members", "_patience", "calls", "length", "lone")

    def __init__(self) -> None:
        self.calls: list[Hashable] = []
        self.length = 0
        self.lone: Hashable = None
        self._members: set[Hashable] = set()
        self._patience = PENDING // 2

    def begin_anew(self, which: Hashable) -> None:
        """Restart the search for the length if the called optimizer was in no step so far, because it was made late.

        Args:
            which: the called optimizer or cell.
        """
        if self.length and which not in self._members:
            self.length, self._patience, self.lone = 0, LATE, None
            self.calls.clear()

    def keep(self, which: Hashable, at_ns: int, track: Track, known: int) -> int:
        """Add a call while the length is unknown; return the length if it is known now, else 0.

        Args:
            which: the optimizer or cell.
            at_ns: when the call ended.
            track: receives a boundary for each call.
            known: number of optimizers or cells, as far as known.
        """
        self.calls.append(which)
        track.pending.append(track.end(at_ns) or (at_ns, at_ns))
        # an optimizer that was never called is not waited for any longer
        length = cycle_length(self.calls, known if len(self.calls) <= self._patience else len(set(self.calls)))
        if not length:
            del self.calls[:-PENDING], track.pending[:-PENDING]
        return length

    def settle(self, length: int, track: Track) -> None:
        """Fold the waiting calls into steps of the given length; the remaining calls begin the next step."""
        self.length, waiting = length, track.pending
        self._members = set(self.calls)
        self.lone = next(iter(self._members)) if length == len(self._members) == 1 else None
        whole = len(waiting) - len(waiting) % length
        track.pending = [(waiting[index][0], waiting[index + length - 1][1]) for index in range(0, whole, length)]
        if whole < len(waiting):
            track.start = waiting[whole][0]
        del self.calls[:whole]


class Population:
    """The number of optimizers of a job, without those that were garbage-collected."""

    def __init__(self) -> None:
        self.count = 0
        self._alive: dict[int, weakref.ref[Any]] = {}  # by id of the reference

    def made(self, optimizer: Any) -> None:
        """Count one more.

        Args:
            optimizer: the object; None where only the number matters.
        """
        self.count += 1
        if optimizer is not None:
            reference = weakref.ref(optimizer, self._gone)
            self._alive[id(reference)] = reference

    def absorbed(self) -> None:
        """Count one less: it is a part of another."""
        self.count = max(self.count - 1, 0)

    def _gone(self, reference: "weakref.ref[Any]") -> None:
        self._alive.pop(id(reference), None)
        self.absorbed()
