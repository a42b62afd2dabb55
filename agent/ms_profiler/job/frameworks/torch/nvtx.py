"""Connect PyTorch to our injection library of NVTX, in builds for CUDA without ITT, for example on aarch64.

The environment variable NVTX_INJECTION64_PATH has the path of the injection library. Each library with a copy of NVTX
loads the injection library at its first call of NVTX. So the variable names our extension while PyTorch pushes one
range of ours. The variable is removed before any line of the script runs. If another tool, for example Nsight Systems,
has set the variable, it stays unchanged.
"""

import os
import sys
from typing import TYPE_CHECKING, Any

from ms_profiler.job import recorder
from ms_profiler.job.frameworks.torch.profiler_slot import CORE

if TYPE_CHECKING:
    from ms_profiler.job.recorder import Recorder

VARIABLE = "NVTX_INJECTION64_PATH"


def connect(to: "Recorder") -> str:
    """Make PyTorch load our injection library; return the reason if it does not, empty on success.

    Args:
        to: the recorder that receives the pushed ranges.
    """
    if to.take_ranges():
        return ""
    if sys.modules["torch"].version.cuda is None:
        return "this build of PyTorch has no NVTX"
    if VARIABLE in os.environ:
        return f"{VARIABLE} names another library"
    path = recorder.collector()
    if not path:
        return "the extension, which records them, does not load"
    os.environ[VARIABLE] = path
    try:
        _push()
    except RuntimeError as reason:
        return f"NVTX does not record ({str(reason).splitlines()[0]})"
    finally:
        if os.environ.get(VARIABLE) == path:
            del os.environ[VARIABLE]
    return "" if to.take_ranges() else "PyTorch's NVTX requested no injection"


def config(shapes: bool) -> Any:
    """Return the configuration of a profiler that pushes an NVTX range for each operator.

    Args:
        shapes: whether the names of ranges contain the shapes.
    """
    profiler = sys.modules["torch._C._profiler"]
    flags = (shapes, False, False, False, False)  # whether to record shapes, memory, stacks, flops, modules
    return profiler.ProfilerConfig(profiler.ProfilerState.NVTX, *flags, profiler._ExperimentalConfig())


def _push() -> None:
    """Make PyTorch push an NVTX range, unless the thread has a profiler."""
    core, profiler = sys.modules[CORE], sys.modules["torch._C._profiler"]
    if core._profiler_enabled():
        return
    core._enable_profiler(config(False), set())
    try:
        with profiler._RecordFunctionFast("ms_profiler"):
            pass
    finally:
        core._disable_profiler()
