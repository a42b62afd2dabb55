"""Sample the memory of the process, between steps."""

from typing import TYPE_CHECKING, Final

from ms_profiler.job.pace import Pace
from ms_profiler.job.samplers import statm
from ms_profiler.store.names import HELD

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: smallest time between two samples, in ns. A sample takes 0.1 ms with cold caches: samples 10 ms apart took 1 % of a
#: loop of short steps.
PAUSE: Final = 50_000_000
#: A sample takes this time, ns, with everything that happens between two steps for it: 0.25 to 0.3 ms with cold caches
#: on a slow machine. All samples may take the part `PART` of `overhead_budget`.
SAMPLE: Final = 300_000
PART: Final = 0.05
#: largest number of steps between two samples; this limit only matters for steps below 50 us
MOST: Final = 1024


class Resident:
    """Record the memory of the process as a counter.

    Args:
        host: the session, whose steps decide when to sample.
    """

    def __init__(self, host: "Host") -> None:
        self._host = host
        self._name = host.recorder.intern(HELD)
        self._pace = Pace(PAUSE)
        self._on = False

    def start(self) -> None:
        """Begin to sample."""
        budget = max((each.options.overhead_budget for each in self._host.recordings), default=0.0)
        pause = max(PAUSE, int(SAMPLE / (PART * budget))) if budget else PAUSE
        self._pace = Pace(pause, most=MOST * pause // PAUSE)
        self._host.steps.on_pending = self._sample_early
        self._on = True

    def stop(self) -> None:
        """Stop sampling."""
        self._on = False

    def stepped(self, count: int) -> tuple[int, bool]:
        """Record one sample between two steps, after `count` steps.

        Returns:
            The number of steps after which to record the next sample, and False: the call takes no noticeable time.
        """
        if not self._samples():
            return count + 1, False
        self._sample()
        self._pace.looked(self._host.recorder.now())
        return count + self._pace.steps, False

    def _sample_early(self) -> None:
        """Record a sample when a step may have ended, while it is not known yet where steps end.

        The session does not call `stepped` during this time.
        """
        if self._samples():
            with self._host.guard("reading the memory of the process"):
                self._sample()

    def _samples(self) -> bool:
        return self._on and self._host.steps.recording

    def _sample(self) -> None:
        try:
            held = statm.held()
        except OSError as reason:
            self._host.not_collected("memory of the process", f"{statm.PATH}: {reason.strerror}")
            return
        self._host.recorder.counter(self._name, float(held))


def watch(host: "Host") -> None:
    """Sample the memory of the process while the session records.

    Args:
        host: the session that records.
    """
    resident = Resident(host)
    host.at_start(resident.start)
    host.at_end(resident.stop)
    host.at_step(resident.stepped, follows=False)
