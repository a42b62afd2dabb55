"""Begin to trace GPUs when PyTorch first uses CUDA in this process; read the memory that PyTorch's allocator holds."""

import sys
from typing import TYPE_CHECKING

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import Target
from ms_profiler.job.samplers import device_tensors
from ms_profiler.job.samplers.device_tensors import Held

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

MODULE = "torch.cuda"
#: name of this device in the option `activities`
ACTIVITY = "GPU"


class Uses:
    """Attach CUPTI, which traces the GPU, when the job uses the GPU. Try again until this works or cannot work.

    PyTorch calls the wrapped function at every use of `torch.cuda`. To keep the cost low, ms-profiler tries to attach
    only after calls 1, 2, 4 and so on.
    """

    def __init__(self, host: "Host") -> None:
        self._devices = host.devices
        self._calls, self._due = 0, 1

    def began(self) -> bool | None:
        """Return True to try to attach CUPTI after this call of PyTorch's function, else None."""
        self._calls += 1
        return True if self._calls >= self._due and self._devices.waits(ACTIVITY) else None

    def ended(self, state: bool, result: None, reason: BaseException | None) -> None:
        """Try to attach CUPTI, the interface that traces GPUs."""
        if reason is None:
            self._due = 2 * self._calls
            self._devices.look(ACTIVITY)


def held() -> list[Held]:
    """Return what PyTorch's caching allocator holds on each GPU of this process."""
    cuda = sys.modules[MODULE]
    if not cuda.is_initialized():
        return []
    found = []
    for number in range(cuda.device_count()):
        stats = cuda.memory_stats_as_nested_dict(number)
        allocated, reserved = (stats.get(f"{what}_bytes", {}).get("all", {}) for what in ("allocated", "reserved"))
        if reserved.get("peak"):
            sizes = allocated.get("current", 0), allocated.get("peak", 0), reserved.get("current", 0)
            found.append(Held(f"{ACTIVITY} {number}", *map(int, sizes)))
    return found


def targets(host: "Host") -> list[Target]:
    """Return the function that PyTorch calls at every use of CUDA, to wrap it.

    PyTorch calls it for the first time before it makes any CUDA context or kernel.
    """
    uses = Uses(host)
    device_tensors.watch(host, held)
    initialised = base.around(host, "tracing a device", uses.began, uses.ended)
    return [Target(MODULE, "_lazy_init", closure=initialised, copies=True)]
