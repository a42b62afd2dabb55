"""Where PyTorch begins to use CUDA in this process: from there on kernels can be recorded."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ms_profiler.job.frameworks.base import Target
from ms_profiler.job.frameworks.torch import closures

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

MODULE = "torch.cuda"


def targets(session: "Session") -> list[Target]:
    """Declare the function that every use of CUDA passes first; before the first kernel and before any context."""
    devices = session.hooks.devices

    def initialised(original: Callable[[], None]) -> Callable[[], None]:
        def _lazy_init() -> None:
            original()
            if devices.waits:
                with session.guard("tracing a device"):
                    devices.look()

        return closures.replace(original, _lazy_init)

    return [Target(MODULE, "_lazy_init", closure=initialised, copies=True)]
