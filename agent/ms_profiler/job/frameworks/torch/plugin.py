"""The plugin of PyTorch: its concerns, and the description of the framework."""

import os
import sys
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base, import_hook
from ms_profiler.job.frameworks.torch import (
    allocator,
    checkpoint,
    communication,
    compilation,
    cuda,
    cuda_graphs,
    data,
    gradients,
    loops,
    modules,
    npu_profiler,
    ops,
    optimizers,
    parallel,
    recompute,
    sync,
)
from ms_profiler.job.frameworks.torch.ranks import DISTRIBUTED

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: concerns of modules that `import torch` loads
CONCERNS = (
    allocator.targets,
    ops.targets,
    modules.targets,
    optimizers.targets,
    gradients.targets,
    data.targets,
    checkpoint.targets,
    sync.targets,
    cuda_graphs.targets,
    cuda.targets,
)
#: modules that may be imported later: the last module of a concern -> the concern
LATER = {
    DISTRIBUTED: communication.targets,
    checkpoint.SAVER: checkpoint.saving,
    checkpoint.LOADER: checkpoint.loading,
    compilation.FRAMES: compilation.targets,
    compilation.CALLBACKS: compilation.callbacks,
    optimizers.STATES: optimizers.preparing,
    parallel.MESHES: parallel.meshes,
    recompute.MODULE: recompute.targets,
    **dict.fromkeys(npu_profiler.CLASSES, npu_profiler.targets),
    **loops.LATER,
}


class PyTorch(base.Plugin):
    """Hook PyTorch 2.x."""

    def __init__(self) -> None:
        super().__init__("torch", CONCERNS)

    def apply(self, host: "Host") -> None:
        """Wrap every target that exists now, and the others after their import; never raise."""
        super().apply(host)
        for name, concern in LATER.items():

            def imported(*_: Any, concern: Any = concern) -> None:
                self.add(host, concern)

            import_hook.watch(name, after=imported)

    def undo(self) -> None:
        """Restore every original function, and stop waiting for imports."""
        for name in LATER:
            import_hook.unwatch(name)
        optimizers.release()
        super().undo()

    def describe(self) -> dict[str, str]:
        """Return device, mode, number of threads, and the source of operators."""
        torch = sys.modules["torch"]
        device = "CPU"
        if torch.cuda.is_initialized():
            device = str(torch.cuda.get_device_name())
        npu = getattr(torch, "npu", None)  # torch_npu adds it
        if npu is not None and npu.is_initialized():
            device = "Ascend"
        mode = "compiled" if compilation.compiled else "eager"
        crowd = {}
        if device == "CPU":
            crowd = {"threads": str(torch.get_num_threads()), "processors": str(len(os.sched_getaffinity(0)))}
        return {"mode": mode, "device": device} | crowd | ({"operators": ops.source} if ops.source else {})
