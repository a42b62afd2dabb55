"""How much memory the process holds, looked at between steps."""

from typing import TYPE_CHECKING, Final

from ms_profiler.job.pace import Pace
from ms_profiler.job.samplers import statm
from ms_profiler.store.names import HELD

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: ns between two looks, or more
PAUSE: Final = 5_000_000


class Resident:
    """Record what the process holds, between steps.

    Args:
        host: whose steps count.
    """

    def __init__(self, host: "Host") -> None:
        self._host = host
        self._name = host.recorder.intern(HELD)
        self._pace = Pace(PAUSE)
        self._on = False

    def start(self) -> None:
        """Begin to look."""
        self._host.steps.kept = self._kept
        self._on = True

    def stop(self) -> None:
        """Look no longer."""
        self._on = False

    def stepped(self, count: int) -> tuple[int, bool]:
        """Record what is held now; return from which step on to look again, which takes no time worth a word."""
        if not self._looks():
            return count + 1, False
        self._look()
        self._pace.looked(self._host.recorder.now())
        return count + self._pace.steps, False

    def _kept(self) -> None:
        """Look as well while it is not known what a step is: no source is called then."""
        if self._looks():
            with self._host.guard("looking at memory"):
                self._look()

    def _looks(self) -> bool:
        return self._on and self._host.steps.recording

    def _look(self) -> None:
        try:
            held = statm.held()
        except OSError as reason:
            self._host.not_collected("memory of the process", f"{statm.PATH}: {reason.strerror}")
            return
        self._host.recorder.counter(self._name, float(held))


def watch(host: "Host") -> None:
    """Look at memory for as long as the session records."""
    resident = Resident(host)
    host.at_start(resident.start)
    host.at_end(resident.stop)
    host.at_step(resident.stepped)
