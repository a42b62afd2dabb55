"""How much memory the process holds, looked at between steps."""

from typing import TYPE_CHECKING, Final

from ms_profiler.job.pace import Pace
from ms_profiler.job.samplers import statm
from ms_profiler.store.names import HELD

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

#: ns between two looks, or more
PAUSE: Final = 5_000_000


class Resident:
    """Record what the process holds, between steps.

    Args:
        session: whose steps count.
    """

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._name = session.recorder.intern(HELD)
        self._statm = statm.Statm()
        self._pace = Pace(PAUSE)

    def start(self) -> None:
        """Open what is looked at."""
        self._session.steps.kept = self._kept
        try:
            self._statm.open()
        except OSError as reason:
            self._refused(reason)

    def stop(self) -> None:
        """Close it."""
        self._statm.close()

    def stepped(self, count: int) -> tuple[int, bool]:
        """Record what is held now; return from which step on to look again, which takes no time worth a word."""
        if not self._looks():
            return count + 1, False
        self._look()
        self._pace.looked(self._session.recorder.now())
        return count + self._pace.steps, False

    def _kept(self) -> None:
        """Look as well while it is not known what a step is: no source is called then."""
        if self._looks():
            with self._session.guard("looking at memory"):
                self._look()

    def _looks(self) -> bool:
        return self._statm.opened and self._session.steps.recording

    def _look(self) -> None:
        try:
            held = self._statm.held()
        except OSError as reason:
            self._refused(reason)
            return
        self._session.recorder.counter(self._name, float(held))

    def _refused(self, reason: OSError) -> None:
        self._session.not_collected("memory of the process", f"{statm.PATH}: {reason.strerror}")


def watch(session: "Session") -> None:
    """Look at memory for as long as the session records."""
    resident = Resident(session)
    session.at_start(resident.start)
    session.at_end(resident.stop)
    session.at_step(resident.stepped)
