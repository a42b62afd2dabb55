"""PyTorch's tie to an injection of NVTX, where it has no ITT and was built for CUDA, as on aarch64.

NVTX asks for it once in each library that holds a copy of it, at the first call from there. So the variable names our
extension for one range of ours, which PyTorch pushes, and is away again before any line of the script runs. Whoever has
set it before, as Nsight Systems does, keeps it.
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
    """Have PyTorch load the injection; return why it does not, empty when it did.

    Args:
        to: the recorder that records what is pushed.
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
    return "" if to.take_ranges() else "PyTorch's NVTX asked for no injection"


def config(shapes: bool) -> Any:
    """Return what has PyTorch push a range for each operator.

    Args:
        shapes: their names tell shapes.
    """
    profiler = sys.modules["torch._C._profiler"]
    flags = (shapes, False, False, False, False)  # shapes, memory, stacks, flops, modules
    return profiler.ProfilerConfig(profiler.ProfilerState.NVTX, *flags, profiler._ExperimentalConfig())


def _push() -> None:
    """Have PyTorch push a range, unless the thread has a profiler."""
    core, profiler = sys.modules[CORE], sys.modules["torch._C._profiler"]
    if core._profiler_enabled():
        return
    core._enable_profiler(config(False), set())
    try:
        with profiler._RecordFunctionFast("ms_profiler"):
            pass
    finally:
        core._disable_profiler()
