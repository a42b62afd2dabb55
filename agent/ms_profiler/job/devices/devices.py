"""All interfaces that trace devices behind one object, which passes each call to all of them.

Several interfaces may serve one device: msPTI and aclprof both serve an NPU. Both use the same callbacks of the driver,
so only one of them may record the device. ms-profiler takes the first interface that serves the options and whose
library was found. That interface keeps the device until it is detached.
"""

from typing import TYPE_CHECKING

from ms_profiler.job.devices.aclprof import Aclprof
from ms_profiler.job.devices.cupti import Cupti
from ms_profiler.job.devices.interface import Interface
from ms_profiler.job.devices.mspti import Mspti
from ms_profiler.job.devices.source import DeviceSource

if TYPE_CHECKING:
    from ms_profiler.job.frameworks.base import Target
    from ms_profiler.job.host import Host

#: all interfaces; for an NPU, aclprof is tried before msPTI
INTERFACES: tuple[type[Interface], ...] = (Cupti, Aclprof, Mspti)


class Devices:
    """Trace all devices of this machine.

    Args:
        host: the part of the session that records.
    """

    def __init__(self, host: "Host") -> None:
        self._host = host
        self.sources = [DeviceSource(host, interface(), self._turn) for interface in INTERFACES]

    def targets(self, host: "Host") -> list["Target"]:
        """Register the tracing of devices with the session; return an empty list, as no function is to be wrapped."""
        host.at_start(self._rivals)
        for source in self.sources:
            host.at_start(source.start)
            host.at_step(source.stepped, follows=False)
            host.at_end(source.stop)
        return []

    def waits(self, activity: str) -> bool:
        """Return whether the tracing interface for this kind of device may still be attached later.

        Args:
            activity: the kind of device, "GPU" or "NPU".
        """
        return any(source.waits for source in self.sources if source.interface.activity == activity)

    def look(self, activity: str) -> None:
        """Attach the tracing interface for a kind of device if the job already uses such a device.

        Args:
            activity: the kind of device, "GPU" or "NPU".
        """
        for source in self.sources:
            if source.interface.activity == activity:
                source.look()

    def release(self) -> None:
        """Detach all tracing interfaces, because the script starts a profiler of its own, which needs them."""
        for source in self.sources:
            source.release()

    def resume(self) -> None:
        """Attach the tracing interfaces again where possible, after the script's own profiler has stopped."""
        for source in self.sources:
            source.resume()

    def _turn(self, source: DeviceSource) -> bool:
        """Return whether this source's interface, and no other interface to the same device, may record the device."""
        beside = [other for other in self.sources if other.interface.activity == source.interface.activity]
        if any(other.attached for other in beside):
            return source.attached
        return source is self._first(beside)

    def _first(self, beside: list[DeviceSource]) -> DeviceSource | None:
        """Return the first of these sources whose interface serves the options and whose library is not missing."""
        settings = [recording.options for recording in self._host.recordings]
        return next((other for other in beside if not other.absent and other.interface.serves(settings)), None)

    def _rivals(self) -> None:
        """Note which data a recording lacks because an interface that has no such data already records the device."""
        for source in self.sources:
            beside = [other for other in self.sources if other.interface.activity == source.interface.activity]
            first = self._first(beside) if source.attached else None
            if first is not None and first is not source:
                taken, other = source.interface.name, first.interface
                why = f"{taken} recorded the device already, and {other.name} cannot record beside it"
                self._host.not_collected(other.what, why)
