"""Let hooks rest between two bursts, where even hooks that record nothing exceed the budget, or while a schedule waits.

A hook takes time also if it records nothing: it looks up what to do, and replaces some of the job's memory in the
caches. So in steps that are not sampled, most hooks may rest: their C code only calls the framework's function. Then
only the end of each optimizer's step is noted, to count steps; if such steps may nest, also their begin.

The hooks stay in their places. An earlier version gave the framework its own functions back. In CPython, to exchange
`Module.__call__` empties the caches of this class and of all classes that derive from it. With 350 such classes, two
exchanges took 0.6 ms, and the next steps 0.2 ms more. From CPython 3.13 on, a class that is changed 1,000 times has no
cache any more. A hook at rest takes 20 to 50 ns a call.
"""

import posix
from collections.abc import Callable

from ms_profiler.job.guard import Guard
from ms_profiler.job.recorder import shield

#: number of steps in which hooks may not rest after another reason than a burst has ended their rest
SHORT = 64


class Rest:
    """Let hooks rest, and let them record again.

    Args:
        guard: returns a context manager that suppresses errors of ms-profiler in its block.
    """

    def __init__(self, guard: Callable[[str], Guard]) -> None:
        self._guard = guard
        #: Each function lets some hooks rest (argument True), or record again (False).
        self.switches: list[Callable[[bool], None]] = []
        #: whether the hooks rest now
        self.resting = False
        self._ever = True  # whether hooks may rest at all
        self._again = 0  # number of steps after which hooks may rest again
        self._watches_forks = False

    def begin(self, count: int) -> None:
        """Let the hooks rest, if that is allowed.

        Args:
            count: the number of steps so far.
        """
        if self.resting or not self.switches or not self._ever or count < self._again:
            return
        with self._guard("letting hooks rest"):
            if not self._watches_forks:
                posix.register_at_fork(after_in_child=shield(self.stop, self._guard("a fork")))
                self._watches_forks = True
            done = False
            try:
                self.resting = True
                self._switch(True)
                # a signal handler of the job, or another thread, may have ended the rest meanwhile
                done = self.resting and self._ever
            finally:
                if not done:
                    self._switch(False)
                    self.resting = False

    def end(self, count: int = 0) -> None:
        """Let the hooks record again. If the job's exception interrupts this function, the next call of it continues.

        Args:
            count: the number of steps so far, if the reason is another one than a burst; else 0.
        """
        with self._guard("ending the rest of hooks"):
            if count and self.resting:
                self._again = count + SHORT
            self._switch(False)  # also if `resting` is false: another thread may be about to end this rest
            self.resting = False

    def _switch(self, on: bool) -> None:
        for switch in self.switches:
            switch(on)

    def stop(self) -> None:
        """Let the hooks record again, and never rest any more."""
        self._ever = False
        self.end()

    def drop(self, calls: list[Callable[..., object]]) -> None:
        """Let the hooks record again, and forget the functions of `calls`, because their hooks are removed."""
        if any(switch in calls for switch in self.switches):
            self.end()
            self.switches = [switch for switch in self.switches if switch not in calls]
