"""Read from `mindspore.runtime` the device memory that MindSpore's memory pool holds; a CPU has no such memory."""

import sys
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import Target
from ms_profiler.job.samplers import device_tensors
from ms_profiler.job.samplers.device_tensors import Held

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

MODULE = "mindspore.runtime"


def held() -> list[Held]:
    """Return the device memory that MindSpore's pool holds in this process; empty if MindSpore reports none."""
    stats: dict[str, Any] = getattr(sys.modules.get(MODULE), "memory_stats", dict)()
    if not stats:
        return []
    context = sys.modules["mindspore.context"].get_context
    device = f"{context('device_target')} {context('device_id')}"
    keys = "total_allocated_memory", "max_allocated_memory", "total_reserved_memory"
    return [Held(device, *(int(stats.get(key, 0)) for key in keys))]


def targets(host: "Host") -> list[Target]:
    """Read the memory between steps from now on; return no functions to wrap."""
    if hasattr(sys.modules.get(MODULE), "memory_stats"):
        device_tensors.watch(host, held)
    return []
