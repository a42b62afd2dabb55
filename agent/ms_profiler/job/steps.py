"""Decide where one training step ends and the next begins, in a job that does not mark its steps.

Several sources report the ends of steps, and the source with the highest priority decides. In order of priority, they
are: the framework's own loop, from its first step on; a repeating cycle of calls of optimizers, or of cells that train;
the batches of an evaluation; a dataset's batches; calls of a network. The ends are kept until a source is chosen.

The last three sources (`store.format.GUESSES`) decide only while the job trains nothing. If the job trains later, their
steps were an evaluation, a rollout or a warm-up. Then these steps are revoked: the analysis removes them. The job
writes no record that says so, because the job may be killed at any time.

A step begins where the step before it ended, so that no time between two steps is lost. After the end of an epoch, or
after a nested evaluation, a step begins with the wait for its first batch.
"""

from collections.abc import Callable, Hashable
from threading import get_ident
from typing import Any

from ms_profiler.job.boundaries import PENDING, Leader, Marks, Track, Tracks
from ms_profiler.job.listener import Listener
from ms_profiler.job.recorder.contract import Recorder
from ms_profiler.job.schedule import Schedule
from ms_profiler.job.scheduled import UNRECORDED, Scheduled
from ms_profiler.job.sources import NEVER
from ms_profiler.job.turns import Population, Turns, unrepeated
from ms_profiler.store.format import GUESSES, TRAINING, Kind, StepSource

#: Enumeration members used in every step, as constants: looking one up takes 2 us with cold caches.
STEP, FRAMEWORK_LOOP, DATASET = int(Kind.STEP), StepSource.FRAMEWORK_LOOP, StepSource.DATASET
NETWORK_CALL, EVALUATION_LOOP = StepSource.NETWORK_CALL, StepSource.EVALUATION_LOOP


class Steps(Scheduled):
    """Receive the ends of steps from all sources, choose the source that decides, and write the steps.

    Args:
        recorder: receives the steps; the schedule pauses and resumes it.
        schedule: the steps to record; None records all.
        decided: called with the chosen source, each time another source is chosen.
        stepped: called between two steps with the number of steps so far: from `next_look` steps on, and after a step
            longer than `long_ns`. The result is whether the call took noticeable time, which belongs to neither step.

    Only what one thread reports counts, see `Listener`. Times are CLOCK_MONOTONIC_RAW nanoseconds.
    """

    def __init__(
        self,
        recorder: Recorder,
        schedule: Schedule | None = None,
        decided: Callable[[StepSource], None] = lambda source: None,
        stepped: Callable[[int], bool] = lambda count: False,
    ) -> None:
        super().__init__()
        self.recorder, self._record = recorder, recorder.record
        self._begin(decided, stepped)
        self.reset(schedule)

    def _begin(self, decided: Callable[[StepSource], None], stepped: Callable[[int], bool]) -> None:
        self._decided, self._called = decided, stepped
        #: while no source is chosen, called for each end of a step that is kept in memory
        self.on_pending: Callable[[], None] = lambda: None
        self.on_exhausted = self.on_pending  # called when a dataset has no batch left
        self._overridden = False  # whether a recording of the script needs the steps that the schedule leaves out
        self._listener, self._optimizers = Listener(), Population()
        #: _loops: number of running framework loops. _suspended: number of running evaluations inside training.
        self._loops = self._suspended = 0

    def forked(self) -> None:
        """Forget, in a fork child, the loops, evaluations, optimizers and sources of the parent process."""
        self._begin(lambda source: None, lambda count: False)
        self.reset()

    def reset(self, schedule: Schedule | None = None) -> None:
        """Count from the first step again, because another recording begins; running loops continue.

        Hooks hold references to this object. So the object is reset, and never replaced by a new one.

        Args:
            schedule: the steps to record; None records all.
        """
        self.schedule, self.count = schedule, 0  # `count`: number of ended steps so far; never decreases
        self._stepped = self._called if schedule is None else self._scheduled
        #: number of the next steps that are far from every step that the schedule records, when `stepped` was called
        self.idle = self.recorded = 0
        #: _revoked: number of counted steps that were revoked. _since: the count when the source was chosen.
        self._revoked = self._since = 0
        #: _guessed: number of steps that may still be revoked. _guesses: whether the chosen source is in `GUESSES`.
        self._guessed, self._guesses = 0, False
        #: `stepped` is called when `count` has reached `next_look`, and after a step longer than `long_ns` nanoseconds
        self.next_look, self.long_ns = 0, NEVER
        self.last_ns, self.ended_ns = 0, 0  # duration and end of the last step, ns, set before a call of `stepped`
        self.marks, self._flags = Marks(), 0  # `_flags`: those of `marks`
        self.source: StepSource | None = None
        self._tracks, self._chosen = Tracks(), Track()  # `_chosen`: track of the chosen source
        #: _quick: the chosen source, if each of its reports ends a step. _name: id of the source's name. lone: id of
        #: the only optimizer; 0 if there is none or several, or if the next step may have no begin yet.
        self._quick = self.lone = self._name = 0
        self._turns = {source: Turns() for source in (StepSource.OPTIMIZER_CYCLE, StepSource.TRAIN_CELL)}
        self._depth, self._leader = 0, Leader()  # number of calls of networks that have not returned yet
        #: _worked: the job has computed since the last end of a step. _exhausted: and then a loader had no batch left.
        self._worked = self._exhausted = False
        if schedule is not None:
            self.recorder.pause(not self.recording)

    @property
    def trains(self) -> bool:
        """Return whether the job certainly trains something, or its script reports the steps."""
        return self.source is not None and not self._guesses

    def sample(self, sampled: bool, stretch: int) -> None:
        """Note whether the next steps are sampled, and the number of their stretch, see `Marks`."""
        # If calls of a network are the steps, the next step has begun before now: the switch happens within it.
        since = self.recorder.now() if self.source == NETWORK_CALL else self.ended_ns
        self.marks.switch(sampled, stretch, since)
        self._settle_flags()

    @property
    def running(self) -> int | None:
        """Return the begin of the current step; None if no step runs, or no source is chosen yet."""
        return self._chosen.start

    def began(self, at_ns: int, forward: bool = False) -> None:
        """Begin a step when the job begins to work, if no step runs yet; `forward`: the work is a forward pass."""
        if forward and self._exhausted and self._listens():
            self._forget()
        self._worked = True
        if self._chosen.start is not None and not self._guesses:
            return  # the usual case, on a hot path
        if self._listens():
            self._tracks.open(at_ns)
        else:
            self._listener.works(at_ns)

    def batch_began(self, at_ns: int) -> None:
        """Note that the wait for a batch begins."""
        if self._exhausted and self._listens():
            self._forget()
        if self._chosen.start is not None and not self._guesses:
            return
        if self._listens():
            track = self._tracks[DATASET]
            if track.start is None:
                track.start = at_ns
            else:
                self._boundary(DATASET, at_ns)
            self._tracks.open(at_ns)

    def batches_ended(self) -> None:
        """Note that the dataset is exhausted. If the job has computed nothing, no step runs until the next batch."""
        if self._listens():
            self.on_exhausted()
            self._exhausted = self._worked  # some jobs take all batches before they update their parameters
            if not self._worked:
                self._forget()

    def loop_began(self) -> None:
        """Note that a framework's own loop begins: until it ends, only this loop reports steps."""
        self._loops += 1
        self._settle()
        self._forget()

    def loop_ended(self) -> None:
        """Note that the framework's loop has ended."""
        self._loops = max(self._loops - 1, 0)  # not below 0 if a fork child leaves a loop that its parent entered
        self._settle()
        self._forget()

    def suspend(self) -> None:
        """Ignore the ends of steps until `resume`, because an evaluation inside training begins."""
        self._suspended += 1
        self._settle()

    def resume(self, within: bool = False) -> None:
        """Accept the ends of steps again; the next step begins with the wait for its batch.

        Args:
            within: whether the evaluation is a part of the running step, which continues.
        """
        self._suspended = max(self._suspended - 1, 0)
        self._settle()
        if not within:
            self._forget()

    def optimizer_made(self, optimizer: Any = None) -> None:
        """Note that the job has made an optimizer: while it exists, every full cycle of optimizer calls includes it."""
        self.lone = 0  # the new optimizer may have the same id as a deleted one
        self._optimizers.made(optimizer)

    def optimizer_absorbed(self) -> None:
        """Note that one optimizer of the job contains another one: only calls of the outer optimizer count."""
        self._optimizers.absorbed()

    def turn_ended(
        self, source: StepSource, which: Hashable, at_ns: int, optimizer: Any = None, inside: bool = False
    ) -> None:
        """Note that an optimizer or training cell, `which`, was called; `inside`: it was called by a training cell."""
        turns = self._turns[source]
        if source == self._quick and which == turns.lone:
            alone = source is StepSource.OPTIMIZER_CYCLE and get_ident() == self._listener.thread
            self.lone = id(optimizer) if alone and optimizer is not None else 0
            self.ended(source, at_ns)  # the usual case: it needs none of the ten calls below, which take time
            return
        self.lone = 0
        if not self._listens(trains=True) or self._loops:
            return
        if self._outranked(source):
            self._outvoted(source, which, at_ns)
            return
        self._worked = self._exhausted = False
        if optimizer is not None:
            self._optimizers.made(optimizer)  # no hook has seen it if it is a copy, or was made before the hooks
        turns.begin_anew(which)
        if turns.length:
            gone = self._optimizers.take_gone() if source is StepSource.OPTIMIZER_CYCLE else frozenset()
            if turns.call(which, gone):
                self._boundary(source, at_ns)
            return
        # no step can end before the length of a cycle is known
        length = turns.add(which, at_ns, self._tracks[source], self._optimizers.count)
        if length and inside and self.source == StepSource.TRAIN_CELL:  # not every call of the cell was a step
            self._guessed, self._guesses = self.count - self._since, True
        self._settle_turns(source, length)

    def call_began(self, at_ns: int) -> None:
        """Note that a call of a network, a gradient or a compiled function begins; calls may nest."""
        if self._outranked(NETWORK_CALL) or not self._listens():
            return
        track = self._tracks[NETWORK_CALL]
        if not self._depth and track.start is None:
            track.start = at_ns
        self._depth += 1

    def call_ended(self, network: Hashable, at_ns: int) -> None:
        """Note that a call of a network, a gradient or a compiled function ended; `network` identifies it."""
        if self._outranked(NETWORK_CALL) or not self._listens():
            return
        self._depth = max(self._depth - 1, 0)
        if not self._depth:
            for end_ns in self._leader.called(network, at_ns):
                self._boundary(NETWORK_CALL, end_ns)

    def ended(self, source: StepSource, at_ns: int) -> None:
        """Note that `source` reports the end of a step."""
        if source != self._quick or get_ident() != self._listener.thread:
            if self._listens(trains=source not in GUESSES):
                self._boundary(source, at_ns)
            return
        # The usual case is written without calls: each takes half a microsecond with cold caches.
        track = self._chosen
        start, track.start = track.start, at_ns
        self._worked = self._exhausted = False
        if start is not None:
            self._record(STEP, source, self._flags, self._name, start, at_ns, self.count - self._revoked)
            self._keep_length(at_ns - start)
            self.count += 1
            if self.count >= self.next_look or at_ns - start > self.long_ns:
                self.last_ns, self.ended_ns = at_ns - start, at_ns
                if self._stepped(self.count):
                    track.start = self.recorder.now()

    def close(self) -> None:
        """Choose a source at the end of the run, if none is chosen yet, and write the waiting steps."""
        for source, turns in self._turns.items():
            if turns.calls and not turns.length and not self._outranked(source):
                self._settle_turns(source, unrepeated(turns.calls))
        guesses = [source for source in GUESSES if self._tracks[source].pending]
        if self.source is None and guesses:
            self._decide(guesses[0])

    def _listens(self, trains: bool = False) -> bool:
        """Return whether what this thread reports counts; a thread that `trains` may replace the chosen thread."""
        if self._suspended or self._listener.hears():
            return not self._suspended
        busy = self.trains or self._loops > 0 or any(turns.calls for turns in self._turns.values())
        if not trains or not self._listener.turn(busy):
            return False
        if not busy:
            self._worked = self._exhausted = False
            self._depth, self._leader = 0, Leader()
            self._tracks.hand_over(self._listener.began())
        return True

    def _outranked(self, source: StepSource) -> bool:
        return self.source is not None and self.source < source

    def _outvoted(self, source: StepSource, which: Hashable, at_ns: int) -> None:
        """Receive a report of an optimizer or a training cell while another source decides."""

    def _settle(self) -> None:
        """Set `_quick` to the chosen source, if every end that it reports certainly ends a step; else to 0."""
        source = self.source
        asked = self._suspended or (self.schedule is not None and not self.idle)
        slow = source is None or self._guesses or asked or (self._loops and source > FRAMEWORK_LOOP)
        self._quick, self.lone = 0 if slow or source is None else source, 0

    def _forget(self) -> None:
        self._worked, self._exhausted, self.lone = False, False, 0  # lone: see above, the next step has no begin
        self._tracks.forget()

    def _settle_turns(self, source: StepSource, length: int) -> None:
        if length:
            self._turns[source].settle(length, self._tracks[source])
            self._decide(source)

    def _boundary(self, source: StepSource, at_ns: int) -> None:
        if self._outranked(source) or (self._loops and source > FRAMEWORK_LOOP and source != EVALUATION_LOOP):
            return
        track = self._tracks[source]
        if self.source == source:
            self._step(track, at_ns)
            return
        if (step := track.end(at_ns)) is None:
            return
        track.pending.append(step)
        self.on_pending()
        if source <= FRAMEWORK_LOOP:
            self._decide(source)
        elif any(turns.calls for turns in self._turns.values()):
            del track.pending[:-PENDING]  # the job trains, so wait until the cycle of its optimizers is known
        elif self.source is not None or len(track.pending) >= self._tracks.enough(source, self._optimizers.count):
            self._decide(source)
        elif source == NETWORK_CALL:
            del track.pending[:-PENDING]

    def _decide(self, source: StepSource) -> None:
        last = 0 if self._guesses or source == self.source else self._chosen.start or 0  # end of the last kept step
        self._guesses, self._since = source in GUESSES, self.count
        if not self._guesses:
            self._revoked += self._guessed if source in TRAINING else 0
            self._guessed = 0
        changed, self.source = source != self.source, source
        self._chosen = track = self._tracks[source]
        self._settle()
        self._follow()
        self._name = self.recorder.intern(source.name.lower())
        pending, track.pending = track.pending, []
        self._tracks.clear_pending()
        for turns in (self._turns[other] for other in self._turns if other != source):
            turns.calls.clear()
        if changed:  # `_decided` takes 5 ms: skip it if a late optimizer has led to the same source
            self._decided(source)
        if source <= FRAMEWORK_LOOP and pending and pending[0][0] < last:
            # The script reports the end of an iteration whose step the optimizer has just ended. The rest of the
            # iteration belongs to the next step: as a step of its own, it would shift the numbers of all later steps.
            pending, track.start = [], last
        for start, end in pending:
            self._write(max(start, last), end)
        if pending:
            self._call_stepped(track)

    def _step(self, track: Track, at_ns: int) -> None:
        start, track.start = track.start, at_ns
        self._worked = self._exhausted = False
        if start is not None:
            self._write(start, at_ns)
            self._call_stepped(track)

    def _call_stepped(self, track: Track) -> None:
        # If calls of a network are the steps, a call becomes a step only at a later call. So the next step has already
        # begun, and keeps its begin.
        called = self.count >= self.next_look or self.last_ns > self.long_ns
        if called and self._stepped(self.count) and self.source != NETWORK_CALL:
            track.start = self.recorder.now()

    def _write(self, start_ns: int, end_ns: int) -> None:
        source, number = self.source or StepSource.WHOLE_RUN, self.number
        recorded = self.schedule is None or self.schedule.records(number)
        flags = self.marks.of(start_ns) if recorded else UNRECORDED
        self.last_ns, self.ended_ns = end_ns - start_ns, end_ns
        self._record(STEP, source, flags, self._name, start_ns, end_ns, number)
        self._keep_length(self.last_ns)
        self.count += 1
        self.recorded += recorded or self._overridden
        self._guessed += self._guesses
        if self.schedule is not None:
            self.recorder.pause(not self.recording)
