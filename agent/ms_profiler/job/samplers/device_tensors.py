"""Record, at the end of steps, how much device memory a framework's allocator holds; the framework reports it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from ms_profiler.job.pace import Pace
from ms_profiler.job.sources import NEVER
from ms_profiler.store.names import DEVICE_TENSORS

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

OPTION: Final = "profile_memory"
#: smallest time between two readings, ns, and largest number of steps between them; a reading takes 20 us a device
PAUSE: Final = 5_000_000
MOST: Final = 1024


class Held(NamedTuple):
    """The memory of an allocator, in bytes.

    Attributes:
        device: the device, as results name it.
        allocated: the bytes in use by tensors.
        highest: the peak of the memory in use so far.
        reserved: the bytes taken from the driver.
    """

    device: str
    allocated: int
    highest: int
    reserved: int


class DeviceTensors:
    """Record the memory as counters.

    Args:
        host: the session that records.
        read: returns the memory of each device that the process uses, and does not reset the framework's peaks.
    """

    def __init__(self, host: "Host", read: Callable[[], list[Held]]) -> None:
        self._host, self._read = host, read
        self._pace = Pace(PAUSE, most=MOST)

    def stepped(self, count: int) -> tuple[int, bool]:
        """Record the memory between two steps; see `host.Host.at_step` for argument and result."""
        host = self._host
        if not host.asks(OPTION):
            return NEVER, False
        if host.steps.recording:
            for held in self._read():
                for what in ("allocated", "highest", "reserved"):
                    name = host.recorder.intern(DEVICE_TENSORS.format(held.device, what))
                    host.recorder.counter(name, float(getattr(held, what)))
        self._pace.looked(host.recorder.now())
        return count + self._pace.steps, False


def watch(host: "Host", read: Callable[[], list[Held]]) -> None:
    """Record the memory of tensors on devices while the session records.

    Args:
        host: the session.
        read: as for `DeviceTensors`.
    """
    host.at_step(DeviceTensors(host, read).stepped)
