"""All devices that can be traced, as one: what frameworks tell about any of them reaches each."""

from typing import TYPE_CHECKING

from ms_profiler.job.devices.cupti import Cupti
from ms_profiler.job.devices.interface import Interface
from ms_profiler.job.devices.source import DeviceSource

if TYPE_CHECKING:
    from ms_profiler.job.frameworks.base import Target
    from ms_profiler.job.session import Session

#: every interface there is
INTERFACES: tuple[type[Interface], ...] = (Cupti,)


class Devices:
    """Trace what there is.

    Args:
        session: that records.
    """

    def __init__(self, session: "Session") -> None:
        self.sources = [DeviceSource(session, interface()) for interface in INTERFACES]

    def targets(self, session: "Session") -> list["Target"]:
        """Record for as long as the session does; there is nothing to wrap."""
        for source in self.sources:
            session.at_start(source.start)
            session.at_step(source.stepped)
            session.at_end(source.stop)
        return []

    @property
    def waits(self) -> bool:
        """Return whether an interface is still to be taken."""
        return any(source.waits for source in self.sources)

    def look(self) -> None:
        """Take the interface of what the job has in use by now."""
        for source in self.sources:
            source.look()

    def make_way(self) -> None:
        """Give all interfaces to a profiler of the script's own."""
        for source in self.sources:
            source.make_way()

    def go_on(self) -> None:
        """Take them again, if that can be, when all of these have stopped."""
        for source in self.sources:
            source.go_on()
