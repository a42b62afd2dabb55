"""Find the cycle in which a job calls its optimizers, or its cells that train; one full cycle is a step."""

import weakref
from collections.abc import Hashable, Sequence, Set
from typing import Any

from ms_profiler.job.boundaries import PENDING, Track
from ms_profiler.job.guard import pass_on
from ms_profiler.job.recorder import shield

#: While ms-profiler searches for the cycle of optimizer calls, it keeps at most HELD calls for each optimizer, and
#: HELD_MOST calls in total. The total is limited because a job may have one optimizer for each parameter.
HELD, HELD_MOST = 4, 4096
#: When the job calls an optimizer outside of the known cycle, ms-profiler searches for the cycle again. During this
#: number of calls, it assumes that every optimizer is in the cycle, and waits for those not called yet.
LATE = 8
#: After this number of successive incomplete steps, each without a call of some optimizer of the cycle, ms-profiler
#: searches for a cycle without the optimizers that the last of these steps lacks.
INCOMPLETE = 8


def cycle_length(calls: Sequence[Hashable], known: int) -> int:
    """Return the period of a sequence of optimizer calls, for example 2 for A B A B; 0 while it is unknown.

    With several optimizers, the sequence must have two full periods, and every known optimizer must have been called.

    Args:
        calls: the optimizer of each call, in order.
        known: number of optimizers that the job made. If it is 1, the period is 1: every call ends a step.
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
    """Return the period of a sequence to which no further calls come.

    If the cycle repeats, this is the result of `cycle_length`. Otherwise, if each optimizer was called more than once,
    the job used one optimizer after the other, and each call is a step: 1 for A A B B. Otherwise this is the shortest
    period that fits: 3 for A B C, 2 for A B A.

    Args:
        calls: the optimizer of each call, in order; at least one call.
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
    """Calls of optimizers, or of cells that train: a step ends when all of them have been called, in their order.

    Attributes:
        calls: calls since the last end of a step; all calls, while `length` is unknown.
        length: number of calls in a step; 0 while it is unknown.
        lone: if there is only one optimizer or cell, and each of its calls ends a step: this optimizer or cell; else
            None.
    """

    __slots__ = ("_former", "_gone", "_incomplete", "_lasting", "_members", "_patience", "calls", "length", "lone")

    def __init__(self) -> None:
        self.calls: list[Hashable] = []
        self.length = 0
        self.lone: Hashable = None
        self._members: Set[Hashable] = frozenset()
        self._patience = PENDING // 2
        self._gone: Set[Hashable] = frozenset()  # members that the job has dropped, and not called since
        self._incomplete = 0  # number of successive steps in which at least one optimizer of the cycle was not called
        #: the cycle as it was before an optimizer was left out, because the job did not call it: length and members
        self._former: tuple[int, Set[Hashable]] = 0, frozenset()
        #: whether an optimizer is left out only if the job dropped it, because one that was left out was called again
        self._lasting = False

    def begin_anew(self, which: Hashable) -> None:
        """Prepare for a call of an optimizer that is not in the cycle.

        If this optimizer was left out of the cycle, return to the former cycle. Otherwise, search for the cycle again:
        the job may have made this optimizer after the cycle was found.

        Args:
            which: the called optimizer or cell.
        """
        if not self.length or which in self._members:
            return
        self.calls.clear()
        self.lone = None
        if self._returns(which):
            self.length = self._restore()
        else:
            self.length, self._patience = 0, LATE

    def call(self, which: Hashable, gone: Set[int]) -> bool:
        """Add a call while the cycle is known; return whether it ends a step.

        After this step, search for the cycle again without the optimizers that this step lacks, in two cases: the job
        has dropped one of them, or each of the last `INCOMPLETE` steps lacked some optimizer.

        Args:
            which: the called optimizer or cell.
            gone: ids of the optimizers that the job has dropped since the last call.
        """
        self._gone = ((self._gone | gone) & self._members) - {which}
        self.calls.append(which)
        if len(self.calls) < self.length:
            return False
        missing = self._members - set(self.calls)
        self.calls.clear()
        self._incomplete = self._incomplete + 1 if missing else 0
        if missing & self._gone or (self._incomplete >= INCOMPLETE and not self._lasting):
            self._leave_out(missing)
        return True

    def _leave_out(self, missing: Set[Hashable]) -> None:
        """Search for the cycle again, without the members `missing`."""
        if not missing & self._gone:
            self._former = self.length, self._members
        # wait for one more call than the cycle has members: then all of those that the job still calls are known
        self._patience = len(self._members)
        self._members -= missing
        self.length, self.lone, self._incomplete = 0, None, 0

    def _returns(self, which: Hashable) -> bool:
        """Return whether a called optimizer was left out of the cycle before."""
        return which in self._former[1] and which not in self._members

    def _restore(self) -> int:
        """Restore the cycle that an optimizer was left out of, for the rest of the run, and return its length."""
        length, self._members = self._former
        self._former, self._lasting = (0, frozenset()), True
        return length

    def add(self, which: Hashable, at_ns: int, track: Track, known: int) -> int:
        """Add a call while the cycle is unknown; return the number of calls in the cycle, or 0 if still unknown.

        Args:
            which: the called optimizer or cell.
            at_ns: end of the call, ns.
            track: receives begin and end of each call, which later become steps.
            known: number of optimizers or cells, as far as known.
        """
        self.calls.append(which)
        track.pending.append(track.end(at_ns) or (at_ns, at_ns))
        if self._returns(which):
            return self._restore()
        # after `_patience` calls, optimizers that were never called are no longer expected in the cycle
        length = cycle_length(self.calls, known if len(self.calls) <= self._patience else len(set(self.calls)))
        if not length:
            most = max(PENDING, min(HELD * known, HELD_MOST))
            del self.calls[:-most], track.pending[:-most]
        return length

    def settle(self, length: int, track: Track) -> None:
        """Group the calls kept so far into steps of `length` calls each; the calls left over begin the next step."""
        self.length, waiting = length, track.pending
        self._members = (self._members if self._lasting else frozenset()) | frozenset(self.calls)
        self.lone = next(iter(self._members)) if length == len(self._members) == 1 else None
        whole = len(waiting) - len(waiting) % length
        track.pending = [(waiting[index][0], waiting[index + length - 1][1]) for index in range(0, whole, length)]
        if whole < len(waiting):
            track.start = waiting[whole][0]
        del self.calls[:whole]


class Population:
    """The number of optimizers that a job has made, without those that were garbage-collected.

    Attributes:
        count: the number.
        gone: ids of the optimizers that were garbage-collected since the last call of `take_gone`.
    """

    def __init__(self) -> None:
        self.count = 0
        self.gone: set[int] = set()
        self._alive: dict[int, weakref.ref[Any]] = {}  # key: id of the optimizer

    def made(self, optimizer: Any) -> None:
        """Count one more optimizer, unless it is counted already.

        Args:
            optimizer: the optimizer; None if it stays counted even after its garbage collection.
        """
        key = id(optimizer)
        if key in self._alive:
            return
        self.count += 1
        self.gone.discard(key)
        if optimizer is not None:
            self._alive[key] = weakref.ref(optimizer, shield(lambda _: self._gone(key), pass_on))

    def take_gone(self) -> Set[int]:
        """Return the ids of the optimizers that were garbage-collected since the last call."""
        gone, self.gone = self.gone, set()
        return gone

    def absorbed(self) -> None:
        """Count one optimizer less, because another optimizer contains it."""
        self.count = max(self.count - 1, 0)

    def _gone(self, key: int) -> None:
        self._alive.pop(key, None)
        self.gone.add(key)
        self.absorbed()
