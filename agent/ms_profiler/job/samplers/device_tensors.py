"""Record, at the end of steps, how much device memory a framework's allocator holds; the framework reports it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from ms_profiler.job.pace import Pace
from ms_profiler.job.sources import NEVER
from ms_profiler.store.names import DEVICE_TENSORS

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

OPTION: Final = "profile_memory"
#: Smallest time between two readings of the memory, ns, and largest number of steps between them. A reading takes 20 us
#: for each device.
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
    """Record the memory that a framework's allocator holds on each device, as counters.

    Args:
        host: the session that records.
        read: returns this memory for each device that the process uses. It must not reset the framework's peaks.
    """

    def __init__(self, host: "Host", read: Callable[[], list[Held]]) -> None:
        self._host, self._read = host, read
        self._pace = Pace(PAUSE, most=MOST)

    def stepped(self, count: int) -> tuple[int, bool]:
        """Record the memory between two steps, after `count` steps.

        Returns:
            The number of steps after which to call this method next, and False: the call takes no noticeable time.
        """
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
        host: the session that records.
        read: returns the memory of each device that the process uses.
    """
    host.at_step(DeviceTensors(host, read).stepped, follows=False)
