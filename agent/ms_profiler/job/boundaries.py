"""Keep the ends of steps that each source reports, until one source is chosen; and keep the flags of steps.

A source is something in the job that may separate steps, for example the calls of an optimizer. A boundary is the end
of a step, as a source reports it. A stretch is a number of consecutive steps with one sampling plan (see `bursts.py`).
A step's flags say whether the step is sampled, and whether the number of its stretch is odd.
"""

from collections.abc import Hashable

from ms_profiler.job.recorder.bases import TrackBase
from ms_profiler.store.format import Flag, StepSource

#: Before one source is chosen to decide where steps end, ms-profiler keeps this many ends of steps for each source.
PENDING = 64

#: source -> text for the summary: why this source decides where steps end
WHY = {
    StepSource.SCRIPT: "the script calls step()",
    StepSource.FRAMEWORK_LOOP: "the framework's own loop reports each step",
    StepSource.OPTIMIZER_CYCLE: "each full cycle of optimizer calls ends a step",
    StepSource.TRAIN_CELL: "each call of the cell or function that trains, or each cycle of several of them, is a step",
    StepSource.EVALUATION_LOOP: "each batch of the framework's own evaluation is a step: nothing is trained",
    StepSource.DATASET: "each batch taken from the dataset begins a step",
    StepSource.NETWORK_CALL: "each outermost call of the network is a step: no optimizer and no dataset reported steps",
    StepSource.WHOLE_RUN: "nothing in the job separates one step from the next",
}

#: sources that report where steps begin; the other sources report only where steps end
BEGINNING = (StepSource.SCRIPT, StepSource.DATASET, StepSource.NETWORK_CALL)

COARSE, STRETCH = int(Flag.COARSE), int(Flag.STRETCH)


class Marks:
    """The flags of the next steps to write.

    One flag says that a step has no fine-grained records. The other flag says that the number of the step's stretch is
    odd: a stretch is a group of consecutive steps with one sampling plan, so this flag changes where a stretch begins.
    """

    __slots__ = ("_since", "flags", "sampled")

    def __init__(self) -> None:
        #: whether fine-grained records are made now
        self.sampled = True
        #: `store.format.Flag` values for the steps that end from now on
        self.flags = 0
        self._since = 0  # time of the last change of `sampled`, ns

    def switch(self, sampled: bool, stretch: int, since: int) -> None:
        """Note between two steps whether fine-grained records are made from now on.

        Args:
            sampled: whether fine-grained records are made.
            stretch: number of the next step's stretch, which is a group of steps with one sampling plan.
            since: time of the switch, ns. A step that began before the switch has only a part of its records.
        """
        if sampled is not self.sampled:
            self.sampled, self._since = sampled, since
        self.flags = (0 if sampled else COARSE) | (STRETCH if stretch % 2 else 0)

    def of(self, start_ns: int) -> int:
        """Return the flags of a step that ends now.

        Args:
            start_ns: begin of the step, ns. If sampling was switched on during the step, the step counts as not
                sampled.
        """
        return self.flags | (COARSE if start_ns < self._since else 0)


class Track(TrackBase):
    """The steps as one source reports them, for example the optimizer or the dataset.

    Attributes:
        start: begin of the running step, ns; None if no step runs.
        pending: begin and end of each ended step, ns; kept until one source is chosen.
    """

    __slots__ = ("pending",)

    def __init__(self) -> None:
        self.start = None
        self.pending: list[tuple[int, int]] = []

    def end(self, end_ns: int) -> tuple[int, int] | None:
        """End the running step and begin the next one; return begin and end of the ended step, None if no step ran."""
        start, self.start = self.start, end_ns
        return None if start is None else (start, end_ns)


class Tracks(dict[StepSource, Track]):
    """The steps as each source reports them: source -> `Track`.

    Attributes:
        scripted: whether a profiler of the script runs, so that a step of the script can begin with the job's work.
    """

    def __init__(self) -> None:
        super().__init__((source, Track()) for source in StepSource)
        self.scripted = False

    def forget(self) -> None:
        """Note for every source that no step runs."""
        for track in self.values():
            track.start = None

    def open(self, at_ns: int | None) -> None:
        """Begin a step for every source that has no running step, and does not report itself where this step begins.

        Args:
            at_ns: begin of the step, ns; None if no step is to begin.
        """
        for source, track in self.items():
            if track.start is None and (source not in BEGINNING or (self.scripted and source is StepSource.SCRIPT)):
                track.start = at_ns

    def hand_over(self, at_ns: int | None) -> None:
        """Let the running steps begin at `at_ns`, because another thread decides from now on where steps end.

        This function replaces each begin in one assignment, and never sets it to None meanwhile. The previous thread
        may call `open` at any moment, and `open` would fill a missing begin.

        Args:
            at_ns: begin of the running steps, ns; None if not known.
        """
        for source, track in self.items():
            track.start = None if source in BEGINNING else at_ns

    def clear_pending(self) -> None:
        """Forget the ended steps of all sources: one source has been chosen."""
        for track in self.values():
            track.pending.clear()

    def enough(self, source: StepSource, optimizers: int) -> int:
        """Return how many steps a source must report before it is chosen, in a job that trains nothing.

        Args:
            source: the source.
            optimizers: the number of optimizers of the job.
        """
        if source == StepSource.EVALUATION_LOOP:
            return 1
        batches = self[StepSource.DATASET]
        if source == StepSource.NETWORK_CALL and (batches.pending or batches.start is not None):
            return PENDING + 1  # never chosen: batches are preferred to calls of the network
        return 2 if source == StepSource.NETWORK_CALL and not optimizers else PENDING


class Leader:
    """Choose the network whose calls are the steps: the first network that is called twice.

    Later, another network may be called `TAKEOVER` times between two calls of the chosen network. Then another part of
    the job has begun, and that network is chosen instead.
    """

    TAKEOVER = 4

    def __init__(self) -> None:
        self._leader: Hashable = None
        self._others: dict[Hashable, list[int]] = {}

    def called(self, which: Hashable, end_ns: int) -> list[int]:
        """Note that a call of a network has ended; return the ends of steps that are known after this call.

        Args:
            which: key of the network.
            end_ns: end of the call, ns.

        Returns:
            Ends of steps in ns, oldest first. Empty if this network is not the chosen one. The earlier calls of the
            network are included if this call made it the chosen one.
        """
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
