"""Detach ms-profiler from the NPU while torch_npu's own profiler runs."""

import sys
from typing import TYPE_CHECKING

from ms_profiler.job.devices import lending
from ms_profiler.job.frameworks.base import Target

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: module of torch_npu's profiler, whose name depends on the version -> name of the profiler's class in this module
CLASSES = {
    "torch_npu.profiler._profiler_interface": "_ProfInterface",
    "torch_npu.profiler.profiler_interface": "ProfInterface",
}


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap: those that begin and end torch_npu's profiler, in the modules that are loaded."""
    return [
        target
        for module, name in CLASSES.items()
        if module in sys.modules
        for target in lending.targets(host, module, f"{name}.init_trace", f"{name}.finalize_trace")
    ]
