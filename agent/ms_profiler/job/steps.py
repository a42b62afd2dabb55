"""Where one training step ends and the next begins, for a job that does not say so itself.

Several sources report boundaries. The best one that speaks wins, once: a framework's own loop at its first step; a
repeating cycle of optimizer calls; a cell that trains; a dataset's batches; calls of a network. Until the winner is
known, boundaries are kept, not written, so that no step is lost or counted twice.

A step begins where the one before it ended, so that nothing between two steps is lost, unless an epoch ended or a
nested evaluation ran in between: then it begins with the wait for its first batch.
"""

import threading
from collections.abc import Callable, Hashable

from ms_profiler.job.boundaries import PENDING, Leader, Track, cycle_length
from ms_profiler.job.recorder.base import Recorder
from ms_profiler.job.schedule import Schedule
from ms_profiler.store.format import Flag, Kind, StepSource

#: Members of enumerations that are needed at every step: to look one up takes 2 us where caches are cold.
STEP, FRAMEWORK_LOOP, DATASET = int(Kind.STEP), StepSource.FRAMEWORK_LOOP, StepSource.DATASET
NETWORK_CALL = StepSource.NETWORK_CALL

WHY = {
    StepSource.SCRIPT: "the script calls step()",
    StepSource.FRAMEWORK_LOOP: "the framework's own loop reports each step",
    StepSource.OPTIMIZER_CYCLE: "each full cycle of optimizer calls ends a step",
    StepSource.TRAIN_CELL: "each call of the cell that trains is a step",
    StepSource.DATASET: "each batch taken from the dataset begins a step",
    StepSource.NETWORK_CALL: "each outermost call of the network is a step: no optimizer and no dataset told better",
    StepSource.WHOLE_RUN: "nothing in the job told one step from the next",
}


def _nothing() -> None:
    """Do what is done at a boundary where nobody asked for anything."""


class Steps:
    """Take boundaries from all sources, decide which one counts, and write the steps.

    Args:
        recorder: where the steps go; also paused and resumed by the schedule.
        schedule: which steps are recorded; None records all.
        decided: called once with the winning source.
        stepped: called between two steps with the number of steps so far, once that is `due`; returns whether it did
            something that took time, which then belongs to neither.

    Only the first thread that reports a boundary is listened to. Times are CLOCK_MONOTONIC_RAW nanoseconds.
    """

    def __init__(
        self,
        recorder: Recorder,
        schedule: Schedule | None = None,
        decided: Callable[[StepSource], None] = lambda source: None,
        stepped: Callable[[int], bool] = lambda count: False,
    ) -> None:
        self.recorder = recorder
        self.schedule = schedule
        self._record = recorder.record
        self.count = 0
        #: the number of steps from which on `stepped` is called
        self.due = 0
        #: called for each boundary that is kept, while nothing is decided
        self.kept: Callable[[], None] = _nothing
        self.source: StepSource | None = None
        self._decided = decided
        self._stepped = stepped
        self._tracks = {source: Track() for source in StepSource}
        self._chosen: Track = Track()  # that of the source that decides
        self._quick: StepSource | None = None  # that source, while what it reports is a step and nothing else
        self._name = 0  # id of its name
        self._thread: int | None = None
        self._loops = 0  # framework loops that are running: while one is, only it counts
        self._suspended = 0
        self._kept = False  # somebody wants what the schedule leaves out
        self._optimizers = 0
        self._calls: list[Hashable] = []
        self._cycle = 0
        self._depth = 0  # calls of networks that have not returned
        self._leader = Leader()
        if schedule is not None:
            recorder.pause(not self.recording)

    @property
    def recording(self) -> bool:
        """Return whether what happens now is recorded: the schedule says so, or somebody needs it all the same."""
        return self._kept or self.schedule is None or self.schedule.records(self.count)

    def keep_recording(self, kept: bool) -> None:
        """Record what the schedule leaves out as well, or no longer."""
        self._kept = kept
        if self.schedule is not None:
            self.recorder.pause(not self.recording)

    @property
    def running(self) -> int | None:
        """Return when the step that runs now began; None when none does, or nothing tells yet where steps end."""
        return self._chosen.start

    def began(self, at_ns: int) -> None:
        """Note that work on a step begins, where no earlier boundary says so."""
        if self._chosen.start is not None:
            return  # the usual case, and a hot path
        if self._listens():
            self._open(at_ns)

    def script_began(self, at_ns: int, decides: bool = False, again: bool = False) -> None:
        """Note that the script says that a step begins.

        Args:
            at_ns: when.
            decides: it will say where steps end, so nobody else is listened to.
            again: although one runs, of which nothing but work of ours has been done so far.
        """
        if not self._listens():
            return
        track = self._tracks[StepSource.SCRIPT]
        if again or track.start is None:
            track.start = at_ns
        if decides and self.source != StepSource.SCRIPT:
            self._decide(StepSource.SCRIPT)

    def script_ended(self) -> None:
        """Note that the script says no more about steps: whoever speaks next is believed."""
        if self.source == StepSource.SCRIPT:
            self.source = None
            self._chosen = Track()
            self._settle()
            self._calls.clear()
            self._cycle = 0
            for track in self._tracks.values():
                track.pending.clear()
            self._forget()
        self._tracks[StepSource.SCRIPT].start = None

    def batch_began(self, at_ns: int) -> None:
        """Note that the wait for a batch begins."""
        if self._chosen.start is not None and self.source is not DATASET:
            return
        if self._listens():
            track = self._tracks[DATASET]
            if track.start is None:
                track.start = at_ns
            else:
                self._boundary(DATASET, at_ns)
            self._open(at_ns)

    def batches_ended(self) -> None:
        """Note that the wait for a batch found none: what follows belongs to no step until the next batch."""
        if self._listens():
            self._forget()

    def loop_began(self) -> None:
        """Note that a framework's loop runs from here: it alone decides about steps."""
        self._loops += 1
        self._settle()
        self._forget()

    def loop_ended(self) -> None:
        """Note that the framework's loop is over."""
        self._loops -= 1
        self._settle()
        self._forget()

    def suspend(self) -> None:
        """Leave out what follows, an evaluation inside training, until `resume`."""
        self._suspended += 1
        self._settle()

    def resume(self) -> None:
        """Listen again; the next step begins with its batch."""
        self._suspended -= 1
        self._settle()
        self._forget()

    def optimizer_made(self) -> None:
        """Note that the job has one more optimizer."""
        self._optimizers += 1

    def optimizer_absorbed(self) -> None:
        """Note that one of the job's optimizers is part of another, whose calls alone count."""
        self._optimizers -= 1

    def optimizer_ended(self, optimizer: Hashable, at_ns: int) -> None:
        """Note that a call of an optimizer ended; `optimizer` tells it from others."""
        if not self._listens() or self._loops or self._outranked(StepSource.OPTIMIZER_CYCLE):
            return
        self._calls.append(optimizer)
        if self._cycle:
            if len(self._calls) == self._cycle:
                self._calls.clear()
                self._boundary(StepSource.OPTIMIZER_CYCLE, at_ns)
            return
        # Where steps end is not known before the cycle is: keep the end of every call.
        track = self._tracks[StepSource.OPTIMIZER_CYCLE]
        track.pending.append(track.end(at_ns) or (at_ns, at_ns))
        # Past half of what is kept, an optimizer that was never called is not waited for any longer.
        self._settle_cycle(self._optimizers if len(self._calls) <= PENDING // 2 else len(set(self._calls)))
        del self._calls[:-PENDING], track.pending[:-PENDING]

    def call_began(self, at_ns: int) -> None:
        """Note that a call of a network, a gradient or a compiled function begins; calls may nest."""
        if self._outranked(NETWORK_CALL) or not self._listens():
            return
        if not self._depth:
            track = self._tracks[NETWORK_CALL]
            if track.start is None:
                track.start = at_ns
        self._depth += 1

    def call_ended(self, network: Hashable, at_ns: int) -> None:
        """Note that such a call ended; `network` tells what was called from others."""
        if self._outranked(NETWORK_CALL) or not self._listens():
            return
        self._depth = max(self._depth - 1, 0)
        if not self._depth:
            for end_ns in self._leader.called(network, at_ns):
                self._boundary(NETWORK_CALL, end_ns)

    def ended(self, source: StepSource, at_ns: int) -> None:
        """Note that a step ended, according to `source`."""
        if source is not self._quick or threading.get_ident() != self._thread:
            if self._listens():
                self._boundary(source, at_ns)
            return
        # The usual case, all in one place: between two steps nothing of ours is in the processor's caches, and each
        # function, attribute or member of an enumeration that is looked up takes half a microsecond.
        track = self._chosen
        start, track.start = track.start, at_ns
        if start is not None:
            count = self.count
            self._record(STEP, source, 0, self._name, start, at_ns, count)
            self.count = count = count + 1
            if count >= self.due and self._stepped(count):
                track.start = self.recorder.now()

    def close(self) -> None:
        """Decide with what is known, at the end of the run, and write what was kept."""
        if self.source is None and self._calls:
            self._settle_cycle(len(set(self._calls)))
        if self.source is None:
            for source in (StepSource.TRAIN_CELL, DATASET, NETWORK_CALL):
                if self._tracks[source].pending:
                    self._decide(source)
                    return

    def _listens(self) -> bool:
        if self._suspended:
            return False
        thread = threading.get_ident()
        if self._thread is None:
            self._thread = thread
        return thread == self._thread

    def _outranked(self, source: StepSource) -> bool:
        return self.source is not None and self.source < source

    def _settle(self) -> None:
        """Tell whether what the source that decides reports is a step without further thought."""
        source = self.source
        asked = self.schedule is not None or self._suspended
        if source is None or source == NETWORK_CALL or asked or (self._loops and source > FRAMEWORK_LOOP):
            self._quick = None
        else:
            self._quick = source

    def _forget(self) -> None:
        for track in self._tracks.values():
            track.start = None

    def _open(self, at_ns: int) -> None:
        for source, track in self._tracks.items():
            if track.start is None and source not in (StepSource.SCRIPT, DATASET, NETWORK_CALL):
                track.start = at_ns

    def _settle_cycle(self, known: int) -> None:
        """Fold the calls kept so far into whole cycles, if there is a cycle."""
        self._cycle = cycle = cycle_length(self._calls, known)
        if not cycle:
            return
        track = self._tracks[StepSource.OPTIMIZER_CYCLE]
        calls = track.pending
        whole = len(calls) - len(calls) % cycle
        track.pending = [(calls[index][0], calls[index + cycle - 1][1]) for index in range(0, whole, cycle)]
        if whole < len(calls):
            track.start = calls[whole][0]
        del self._calls[:whole]
        self._decide(StepSource.OPTIMIZER_CYCLE)

    def _boundary(self, source: StepSource, at_ns: int) -> None:
        if self._outranked(source) or (self._loops and source > FRAMEWORK_LOOP):
            return
        track = self._tracks[source]
        if self.source == source:
            self._step(track, at_ns)
            return
        step = track.end(at_ns)
        if step is None:
            return
        track.pending.append(step)
        self.kept()
        best = source <= FRAMEWORK_LOOP or (self.source is not None and source < self.source)
        if best or (len(track.pending) >= self._enough(source) and not self._calls):
            self._decide(source)
        elif source == NETWORK_CALL:
            del track.pending[:-PENDING]

    def _enough(self, source: StepSource) -> int:
        """Return how many steps a source has to report before it is believed."""
        if source == StepSource.TRAIN_CELL:
            return 2
        if source == NETWORK_CALL:
            batches = self._tracks[DATASET]
            if batches.pending or batches.start is not None:
                return PENDING + 1  # never: batches are better
            return 2 if not self._optimizers else PENDING
        return PENDING

    def _decide(self, source: StepSource) -> None:
        self.source = source
        self._chosen = track = self._tracks[source]
        self._settle()
        self._name = self.recorder.intern(source.name.lower())
        pending, track.pending = track.pending, []
        for other in self._tracks.values():
            other.pending.clear()
        self._decided(source)
        for start, end in pending:
            self._write(start, end)
        if pending:
            self._pass(track)

    def _step(self, track: Track, at_ns: int) -> None:
        """Write the step that ends, according to the source that decides."""
        start, track.start = track.start, at_ns
        if start is not None:
            self._write(start, at_ns)
            self._pass(track)

    def _pass(self, track: Track) -> None:
        # calls of a network become steps only when a later one tells them apart: their times lie behind
        if self.count >= self.due and self._stepped(self.count) and self.source != NETWORK_CALL:
            track.start = self.recorder.now()

    def _write(self, start_ns: int, end_ns: int) -> None:
        source = self.source or StepSource.WHOLE_RUN
        recorded = self.schedule is None or self.schedule.records(self.count)
        flags = 0 if recorded else int(Flag.UNRECORDED)
        self._record(STEP, source, flags, self._name, start_ns, end_ns, self.count)
        self.count += 1
        if self.schedule is not None:
            self.recorder.pause(not self.recording)
