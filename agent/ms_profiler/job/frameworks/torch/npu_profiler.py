"""torch_npu's own profiler, for which ours makes way, in the modules that its versions have it in."""

import sys
from typing import TYPE_CHECKING

from ms_profiler.job.devices import lending
from ms_profiler.job.frameworks.base import Target

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: module -> its class
CLASSES = {
    "torch_npu.profiler._profiler_interface": "_ProfInterface",
    "torch_npu.profiler.profiler_interface": "ProfInterface",
}


def targets(host: "Host") -> list[Target]:
    """Declare what is wrapped around it, in the modules that are there."""
    return [
        target
        for module, name in CLASSES.items()
        if module in sys.modules
        for target in lending.targets(host, module, f"{name}.init_trace", f"{name}.finalize_trace")
    ]
