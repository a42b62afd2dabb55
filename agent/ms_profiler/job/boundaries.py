"""Boundaries between steps: those that each source reports until one source is chosen, and the reasons for the
choice.
"""

from collections.abc import Hashable

from ms_profiler.store.format import Flag, StepSource

#: Boundaries held in memory while no source is chosen. A longer cycle of optimizers or accumulated batches is not
#: recognised.
PENDING = 64

#: why a source decides where steps end
WHY = {
    StepSource.SCRIPT: "the script calls step()",
    StepSource.FRAMEWORK_LOOP: "the framework's own loop reports each step",
    StepSource.OPTIMIZER_CYCLE: "each full cycle of optimizer calls ends a step",
    StepSource.TRAIN_CELL: "each call of the cell that trains, or each full cycle of several, is a step",
    StepSource.EVALUATION_LOOP: "each batch of the framework's own evaluation is a step: nothing is trained",
    StepSource.DATASET: "each batch taken from the dataset begins a step",
    StepSource.NETWORK_CALL: "each outermost call of the network is a step: no optimizer and no dataset reported any",
    StepSource.WHOLE_RUN: "nothing in the job separates one step from the next",
}

COARSE, STRETCH = int(Flag.COARSE), int(Flag.STRETCH)


class Marks:
    """The flags of steps in a run with sampled steps."""

    __slots__ = ("_since", "flags", "sampled")

    def __init__(self) -> None:
        #: fine-grained records are being recorded now
        self.sampled = True
        #: flags of the steps that end from here on
        self.flags = 0
        self._since = 0  # when `fine` was switched

    def switch(self, sampled: bool, stretch: int, since: int) -> None:
        """Note between two steps whether fine-grained records are made from here on.

        Args:
            sampled: whether fine-grained records are made.
            stretch: number of the stretch of steps that the next one belongs to.
            since: the time of the switch, ns; a step that began before has only a part of its records.
        """
        if sampled is not self.sampled:
            self.sampled, self._since = sampled, since
        self.flags = (0 if sampled else COARSE) | (STRETCH if stretch % 2 else 0)

    def of(self, start_ns: int) -> int:
        """Return the flags of a step that ends now; a step that began before the switch has only a part of its records.

        Args:
            start_ns: when it began.
        """
        return self.flags | (COARSE if start_ns < self._since else 0)


class Track:
    """Boundaries of one source."""

    __slots__ = ("pending", "start")

    def __init__(self) -> None:
        self.start: int | None = None
        self.pending: list[tuple[int, int]] = []

    def end(self, end_ns: int) -> tuple[int, int] | None:
        """Close the open step, open the next one, and return begin and end; None when no step was open."""
        start, self.start = self.start, end_ns
        return None if start is None else (start, end_ns)


class Leader:
    """Choose, among several networks called in turn, the one whose calls are the steps: the first to be called twice.

    Another network replaces it after `TAKEOVER` calls between two calls of the first, because another part of the job
    has begun.
    """

    TAKEOVER = 4

    def __init__(self) -> None:
        self._leader: Hashable = None
        self._others: dict[Hashable, list[int]] = {}

    def called(self, which: Hashable, end_ns: int) -> list[int]:
        """Return the ends of the steps that are known after this call, oldest first."""
        if which != self._leader:
            if len(self._others) > PENDING:
                self._others.clear()
            ends = self._others.setdefault(which, [])
            ends.append(end_ns)
            if len(ends) < (2 if self._leader is None else self.TAKEOVER):
                return []
            self._leader = which
        else:
            ends = [end_ns]
        self._others = {}
        return ends
