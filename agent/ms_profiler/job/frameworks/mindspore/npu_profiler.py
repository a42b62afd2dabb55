"""Detach ms-profiler from the NPU before the constructor of MindSpore's own NPU profiler prepares the device."""

from typing import TYPE_CHECKING

from ms_profiler.job.devices import lending
from ms_profiler.job.frameworks.base import Target

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

MODULE = "mindspore.profiler.platform.npu_profiler"


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap: those that begin and end MindSpore's NPU profiler."""
    return lending.targets(host, MODULE, "NpuProfiler.__init__", "NpuProfiler.finalize")
