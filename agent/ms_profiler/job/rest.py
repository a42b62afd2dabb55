"""Take hooks away from the job between two bursts, where even hooks that record nothing exceed the budget.

A hook takes time also if it records nothing, because it replaces a function of the framework: Python calls one function
more, and the job's next code is slower. So in steps that are not sampled, the framework may get its own functions back.
Then only the end of each optimizer's step is noted, to count steps; if such steps may nest, also their begin.

To exchange a function of a class is no small change. In CPython, it empties the caches of this class and of all classes
that derive from it. From CPython 3.13 on, a class whose caches were emptied 1,000 times has no cache any more, and a
call of its objects takes twice as long. So with these versions, the number of exchanges is limited.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ms_profiler.job.guard import Guard
from ms_profiler.job.recorder import shield

#: whether the number of exchanges is limited
LIMITED = sys.version_info >= (3, 13)
#: largest number of times that hooks are taken away; each time empties the caches twice
MOST = 200 if LIMITED else 1 << 30
#: After hooks were put back for another reason than a burst, they stay for a number of steps: SHORT, and where the
#: number of exchanges is limited, (steps so far) / STAY. Then this number grows with the logarithm of the steps.
SHORT, STAY = 64, 16


class Rest:
    """Take hooks away and put them back.

    Args:
        guard: returns a context manager that suppresses errors of ms-profiler in its block.
    """

    def __init__(self, guard: Callable[[str], Guard]) -> None:
        self._guard = guard
        #: Each function takes some hooks away (argument True) or puts them back (False). Its result is False if it
        #: cannot, for example because the job has replaced the same function.
        self.switches: list[Callable[[bool], bool]] = []
        #: whether the hooks are taken away now
        self.resting = False
        #: functions that could not put their hooks back yet; they are called again before each burst
        self.waiting: list[Callable[[bool], bool]] = []
        self._left = MOST
        self._again = 0  # number of steps after which hooks may be taken away again
        self._lock = threading.RLock()
        self._watches_forks = False

    def add(self, replaced: Iterable[tuple[Callable[[], Any], str, Any]], hooks: Sequence[Any]) -> None:
        """Register hooks that may be taken away.

        Args:
            replaced: replaced attributes: a function that returns the owner, the name, and the original value.
            hooks: the present values of those attributes that may be taken away.
        """
        for owner, attribute, original in replaced:
            present = vars(owner())[attribute]
            if any(present is hook for hook in hooks):
                self.switches.append(Replaced(owner, attribute, original, present).switch)

    def begin(self, count: int) -> bool:
        """Take the hooks away, if that is allowed; return whether they are away.

        Args:
            count: the number of steps so far.
        """
        with self._guard("taking hooks away"), self._lock:
            if self.resting or not self.switches or not self._left or count < self._again:
                return self.resting
            if not self._watches_forks:
                os.register_at_fork(after_in_child=shield(self._forked, self._guard("a fork")))
                self._watches_forks = True
            self._left -= 1
            self.resting = True
            taken = False
            try:
                done = [switch(True) for switch in self.switches]
                taken = all(done)
            finally:
                if not taken:
                    self._left = 0
                if not (taken and self.resting):  # a signal handler of the job may have called `end` meanwhile
                    self._put_back()
        return self.resting

    def end(self, count: int = 0) -> None:
        """Put the hooks back. If the job's exception interrupts this function, the next call of it continues.

        Args:
            count: the number of steps so far, if the reason is another one than a burst; else 0.
        """
        with self._guard("putting hooks back"), self._lock:
            if not self.resting and not self.waiting:
                return
            if count:
                self._again = count + max(SHORT, count // STAY if LIMITED else 0)
            self._put_back()

    def _put_back(self) -> None:
        self.waiting = [switch for switch in self.switches if not switch(False)]
        if self.waiting:
            self._left = 0
        self.resting = False

    def stop(self) -> None:
        """Put the hooks back, and never take them away again."""
        self._left = 0
        self.end()

    def drop(self, calls: list[Callable[..., Any]]) -> None:
        """Put the hooks back, and forget the functions of `calls`, because their hooks are removed."""
        if any(switch in calls for switch in self.switches):
            self.end()
            self.switches = [switch for switch in self.switches if switch not in calls]

    def _forked(self) -> None:
        self._lock = threading.RLock()  # another thread of the parent may have held it
        self.stop()


@dataclass(eq=False)
class Replaced:
    """A function that a hook replaces.

    Args:
        owner: returns the class or module that has the function, or None after its end.
        attribute: name of the function.
        original: the function of the framework.
        replacement: our function.
    """

    owner: Callable[[], Any]
    attribute: str
    original: Any
    replacement: Any
    away: bool = False

    def switch(self, away: bool) -> bool:
        """Take the hook away or put it back; return False if the job has put a function of its own there."""
        owner = self.owner()
        if owner is None or away is self.away:
            return True
        wanted, other = (self.original, self.replacement) if away else (self.replacement, self.original)
        present = vars(owner).get(self.attribute)
        if present is other:
            setattr(owner, self.attribute, wanted)
        elif present is not wanted:
            return False
        self.away = away
        return True
