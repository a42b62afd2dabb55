"""The steps of a job whose script may report them, through a profiler of its own.

The script's steps follow each other without gaps. Only where the base class begins a step anew, for example with the
first batch of an epoch, does a step of the script begin there, too. If the job has trained since the script's last
report, the running step continues: the script reports, for example, one step for a whole call of `Model.train`.
"""

from collections.abc import Hashable

from ms_profiler.job.boundaries import Track
from ms_profiler.job.steps import Steps
from ms_profiler.job.turns import Turns
from ms_profiler.store.format import StepSource

#: A script with a schedule reports the end of a step at the latest after this many calls of optimizers. Otherwise its
#: reports no longer count until the first one arrives. 64: a step of a GAN, or with many optimizers, has fewer calls.
AWAITED = 64


class ScriptSteps(Steps):
    """Receive the ends of steps, also those that the script reports."""

    #: Reports of optimizers since the script announced its own reports: source, optimizer, time in ns. None: these
    #: reports are not needed.
    _unheard: list[tuple[StepSource, Hashable, int]] | None = None
    #: Time of the last training that the script has not reported yet, ns.
    _trained_ns = 0

    def script_began(self, at_ns: int, decides: bool = False, again: bool = False) -> None:
        """Note that the script reports the begin of a step.

        Args:
            at_ns: time of the begin.
            decides: whether the script will also report where steps end, so that other sources are ignored.
            again: whether `at_ns` replaces the begin of the current step, because only the profiler worked since then.
        """
        if not self._listens(trains=True):
            return
        self._tracks.scripted = True
        track = self._tracks[StepSource.SCRIPT]
        if again or track.start is None:
            track.start = at_ns
        if decides and self.source != StepSource.SCRIPT:
            self._decide(StepSource.SCRIPT)
            self._unheard = []

    def script_ended(self) -> None:
        """Note that the script stops reporting steps, so that another source is chosen."""
        self._recover()
        if self.source == StepSource.SCRIPT:
            self._release()
        self._tracks.scripted = False
        self._tracks[StepSource.SCRIPT].start = None

    def profiler_worked(self, at_ns: int) -> None:
        """Begin the current step anew at `at_ns`, if the job has not worked in it: until then, the profiler worked."""
        if self._listens() and self.trains and not self._worked and self._chosen.start is not None:
            self._chosen.start = at_ns

    def close(self) -> None:
        """Choose a source at the end of the run, if none is chosen yet, and write the waiting steps."""
        self._recover()
        super().close()

    def _forget(self) -> None:
        track = self._tracks[StepSource.SCRIPT]
        begun = track.start
        super()._forget()
        if begun is not None and self._trained_ns > begun:
            track.start = begun

    def _boundary(self, source: StepSource, at_ns: int) -> None:
        if source == StepSource.FRAMEWORK_LOOP and self.source == StepSource.SCRIPT:
            track = self._tracks[source]
            # In a callback, the script may have reported this iteration of the loop already.
            if (self._tracks[StepSource.SCRIPT].start or 0) <= (track.start or at_ns):
                self._trained_ns = at_ns
            track.start = at_ns
        super()._boundary(source, at_ns)

    def _outvoted(self, source: StepSource, which: Hashable, at_ns: int) -> None:
        self._trained_ns = at_ns
        if self._unheard is None:
            return
        self._unheard.append((source, which, at_ns))
        if self.count != self._since:
            self._unheard = None
        elif len(self._unheard) == AWAITED:
            self._recover()

    def _recover(self) -> None:
        """If the script has not reported the end of any step, let the optimizers' reports decide."""
        unheard, self._unheard = self._unheard, None
        if not unheard or self.source != StepSource.SCRIPT or self.count != self._since:
            return
        begun = self._chosen.start
        self._release()
        self._tracks.open(begun)
        # These steps are over. What `_stepped` does between two steps would move the begin of the next one to now.
        stepped, self._stepped = self._stepped, lambda _: False
        try:
            for source, which, at_ns in unheard:
                self.turn_ended(source, which, at_ns)
        finally:
            self._stepped = stepped

    def _release(self) -> None:
        """Let another source decide than the script."""
        self.source, self._guesses, self._chosen = None, False, Track()
        self._settle()
        self._turns = {source: Turns() for source in self._turns}
        self._tracks.clear_pending()
        self._trained_ns = 0
        self._forget()
