"""Several optimizers, or cells that train, whose turns make up a step."""

import weakref
from collections.abc import Hashable, Sequence
from typing import Any

from ms_profiler.job.boundaries import PENDING, Track


def cycle_length(calls: Sequence[Hashable], known: int) -> int:
    """Return the period of a sequence of optimizer calls, 0 when it cannot be told yet.

    Args:
        calls: which optimizer each call was of, in order.
        known: how many optimizers the job made; with one there is nothing to wait for.

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
    """Return the period of a sequence that ended before it was seen twice.

    One of which something was called once only is a cycle. Otherwise one thing was trained after the other, and each
    call is a step.

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
    """Calls of several things that train: once all of them were called, in their order, a step has ended.

    Attributes:
        calls: since the last end of a step; all that are kept, until `length` is known.
        length: calls of a step; 0 until it is known.
    """

    __slots__ = ("calls", "length")

    def __init__(self) -> None:
        self.calls: list[Hashable] = []
        self.length = 0

    def keep(self, which: Hashable, at_ns: int, track: Track, known: int) -> int:
        """Keep a call while the length is not known; return the length if that tells it, else 0.

        Args:
            which: was called.
            at_ns: when the call ended.
            track: keeps a boundary for each call.
            known: how many there are, as far as known.
        """
        self.calls.append(which)
        track.pending.append(track.end(at_ns) or (at_ns, at_ns))
        # past half of what is kept, an optimizer that was never called is not waited for any longer
        length = cycle_length(self.calls, known if len(self.calls) <= PENDING // 2 else len(set(self.calls)))
        if not length:
            del self.calls[:-PENDING], track.pending[:-PENDING]
        return length

    def settle(self, length: int, track: Track) -> None:
        """Fold the calls kept so far into steps of some length; what is left begins the next one."""
        self.length, kept = length, track.pending
        whole = len(kept) - len(kept) % length
        track.pending = [(kept[index][0], kept[index + length - 1][1]) for index in range(0, whole, length)]
        if whole < len(kept):
            track.start = kept[whole][0]
        del self.calls[:whole]


class Population:
    """How many optimizers a job has; one that is gone is not counted."""

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
