"""Who has the device's tracing interface, when it is not us: CUPTI tells only that somebody has."""

import os
import re
import sys

from ms_profiler.job.devices import search

#: libraries that tools put into a process -> the tool
TOOLS = {
    r"/libToolsInjection\w*\.so": "Nsight Systems",
    r"/libcuda-injection\.so": "Nsight Compute",
    r"/libsanitizer-collection\.so": "Compute Sanitizer",
    r"/libdcgm\w*\.so": "DCGM",
    r"/libcudadebugger\.so": "cuda-gdb",
}
#: names the library that the driver loads by itself
INJECTION = "CUDA_INJECTION64_PATH"


def name(profiled: bool) -> str:
    """Return who it is, as far as can be seen from inside.

    Args:
        profiled: the script has used PyTorch's own profiler, which keeps the interface afterwards.
    """
    for pattern, tool in TOOLS.items():
        if search.mapped(re.compile(pattern)):
            return tool
    injected = os.environ.get(INJECTION)
    if injected:
        return f"{os.path.basename(injected)} ({INJECTION})"
    if profiled and "torch" in sys.modules:
        return "PyTorch's own profiler, which keeps it once it was used"
    return "another profiler or debugger of this process"
