"""The plugin of PyTorch: a list of the files whose hooks it applies, and the description of the framework."""

import posix
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base, import_hook
from ms_profiler.job.frameworks.torch import (
    allocator,
    checkpoint,
    closures,
    communication,
    compilation,
    cuda,
    cuda_graphs,
    data,
    functional,
    gradients,
    loops,
    modules,
    npu_profiler,
    ops,
    optimizers,
    parallel,
    ranks,
    recompute,
    sync,
)
from ms_profiler.job.frameworks.torch.ranks import DISTRIBUTED

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: functions that return the functions of PyTorch to wrap, for modules that `import torch` loads
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
#: Module that the job may import later -> function that returns what to wrap after this import. If several modules are
#: needed, the key is the one that is imported last.
LATER = {
    DISTRIBUTED: communication.targets,
    checkpoint.SAVER: checkpoint.saving,
    checkpoint.LOADER: checkpoint.loading,
    checkpoint.WRITER: checkpoint.writing,
    checkpoint.TENSORS: checkpoint.copying,
    closures.FRAMES: compilation.targets,
    compilation.CALLBACKS: compilation.callbacks,
    optimizers.STATES: optimizers.preparing,
    parallel.MESHES: parallel.meshes,
    recompute.MODULE: recompute.targets,
    **dict.fromkeys(functional.REGISTERING, functional.targets),
    **dict.fromkeys(npu_profiler.CLASSES, npu_profiler.targets),
    **loops.LATER,
}


class PyTorch(base.Plugin):
    """Hook PyTorch 2.x."""

    def __init__(self) -> None:
        super().__init__("torch", CONCERNS)

    def apply(self, host: "Host") -> None:
        """Wrap the functions of PyTorch that exist now, and others after the import of their modules; never raise."""
        super().apply(host)
        exchanges = partial(self.add, host, functional.targets)
        ranks.when_joined.append(exchanges)
        for name, concern in LATER.items():

            def imported(*_: Any, concern: Any = concern) -> None:
                self.add(host, concern)

            import_hook.watch(name, after=imported)
        exchanges()  # if the process has joined a group already, nothing else calls this

    def undo(self) -> None:
        """Restore every original function, and stop waiting for imports."""
        for name in LATER:
            import_hook.unwatch(name)
        ranks.when_joined.clear()
        optimizers.release()
        super().undo()

    def describe(self) -> dict[str, str]:
        """Return device, mode and source of operators; on a CPU also the numbers of threads and processors."""
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
            crowd = {"threads": str(torch.get_num_threads()), "processors": str(len(posix.sched_getaffinity(0)))}
        return {"mode": mode, "device": device} | crowd | ({"operators": ops.source} if ops.source else {})
