"""Sources: functions that record data between steps, for example kernels or ranks, in addition to the hooks."""

from collections.abc import Callable
from typing import Any

from ms_profiler.job.guard import Guard
from ms_profiler.job.rest import Rest

#: A number of steps that no job reaches.
NEVER = 1 << 62


class Sources:
    """Call sources when recording begins or ends, and between steps; an error of one source does not affect the others.

    Args:
        guard: returns a context manager that suppresses errors of ms-profiler in its block.
    """

    def __init__(self, guard: Callable[[str], Guard]) -> None:
        self._guard = guard
        #: called between steps with the number of steps so far. The first result is the number of steps after which the
        #: function must be called again; an earlier call does no harm. The second result is whether the call took
        #: noticeable time, which belongs to no step.
        self.step: list[Callable[[int], tuple[int, bool]]] = []
        #: those of them that need not be called when steps begin or cease to be sampled. In a run with a budget of
        #: 0.2 %, their calls took 0.3 of 0.5 ms of such a switch
        self.periodic: list[Callable[[int], tuple[int, bool]]] = []
        self._due: dict[Callable[[int], tuple[int, bool]], int] = {}
        #: called when recording begins or continues
        self.start: list[Callable[[], None]] = []
        self._unstarted: list[Callable[[], None]] = []  # those to call yet
        #: called before recording ends or moves to another result
        self.end: list[Callable[[], None]] = []
        #: pairs of functions for a fork child: called when the child begins to record, and before it ends
        self.child: list[tuple[Callable[[], None], Callable[[], None]]] = []
        #: lets hooks rest between bursts
        self.rest = Rest(guard)

    @property
    def calls(self) -> list[Callable[..., Any]]:
        """Return all functions of all sources."""
        of_children = [call for calls in self.child for call in calls]
        return [*self.step, *self.start, *self.end, *of_children, *self.rest.switches]

    def drop(self, calls: list[Callable[..., Any]]) -> None:
        """End some sources and remove them, so that they are not called again.

        Args:
            calls: all functions that these sources have registered.
        """
        self._all([call for call in self.end if call in calls], "ending a source")
        self.step = [call for call in self.step if call not in calls]
        self.periodic = [call for call in self.periodic if call not in calls]
        self._due = {call: due for call, due in self._due.items() if call in self.step}
        self.start = [call for call in self.start if call not in calls]
        self._unstarted = [call for call in self._unstarted if call not in calls]
        self.end = [call for call in self.end if call not in calls]
        self.child = [pair for pair in self.child if pair[0] not in calls]
        self.rest.drop(calls)

    def put_last(self, calls: list[Callable[..., Any]]) -> None:
        """Call some functions after all others from now on.

        Args:
            calls: functions that are registered.
        """
        for each in (self.step, self.start, self.end):
            each.sort(key=lambda call: call in calls)

    def started(self) -> None:
        """Call the functions for the begin of recording.

        If an exception of the job ends this method early, `stepped` continues it.
        """
        self._unstarted = [*self.start]
        self._continue_start()

    def _continue_start(self) -> None:
        while self._unstarted:
            with self._guard("starting a source"):
                self._unstarted[0]()
            del self._unstarted[:1]

    def stepped(self, count: int, every: bool, switched: bool = False) -> tuple[int, bool]:
        """Call the functions that are due; return the step of the next call, and whether any took noticeable time.

        A function is called only when it is due, because calling nine functions took 0.1 ms of each step.

        Args:
            count: the number of steps so far.
            every: whether to call all functions, even those that are not due.
            switched: whether steps begin or cease to be sampled.
        """
        self._continue_start()
        dues, due, took_time = self._due, NEVER, False
        for call in self.step:
            wanted = dues.get(call, 0)
            if every or wanted <= count or (switched and call not in self.periodic):
                wanted = NEVER  # if the function fails, it is not called again
                with self._guard("a step boundary"):
                    wanted, took = call(count)
                    took_time |= took
                dues[call] = wanted
            due = min(due, wanted)
        return due, took_time

    def ended(self) -> None:
        """Call the functions for the end of recording."""
        self._unstarted.clear()
        self.rest.end()
        self._all(self.end, "ending a source")

    def child_started(self) -> None:
        """Call the functions for the begin of recording in a fork child."""
        self._all([start for start, _ in self.child], "starting a source in a fork child")

    def child_ended(self) -> None:
        """Call the functions for the end of recording in a fork child."""
        self._all([end for _, end in self.child], "ending a source in a fork child")

    def _all(self, calls: list[Callable[[], None]], what: str) -> None:
        for call in calls:
            with self._guard(what):
                call()
