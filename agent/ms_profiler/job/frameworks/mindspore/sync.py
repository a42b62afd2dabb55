"""Record where the host waits for results: when it reads the value of a tensor, and when it waits for the device.

A method that reads a tensor may call another such method. Only the outermost call is recorded.
"""

from typing import TYPE_CHECKING

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import Target, loaded
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

TENSOR = "mindspore.common.tensor"
#: methods of a tensor that need its value on the host
READS = ("asnumpy", "item", "tolist", "__float__", "__int__", "__bool__", "__index__", "__repr__")
#: (module, function or method, name of the span, whether to replace it also in modules that imported it by its name)
WAITS = (
    ("mindspore.runtime.stream", "synchronize", "runtime.synchronize", True),
    ("mindspore.runtime.stream", "Stream.synchronize", "Stream.synchronize", False),
    ("mindspore.runtime.event", "Event.synchronize", "Event.synchronize", False),
    ("mindspore.hal.stream", "synchronize", "hal.synchronize", True),
    ("mindspore.hal.stream", "Stream.synchronize", "Stream.synchronize", False),
    ("mindspore.hal.event", "Event.synchronize", "Event.synchronize", False),
)


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap: those that read tensors or wait for the device."""
    executor = loaded("mindspore.graph.api", "mindspore.common.api")

    def named(name: str) -> base.Closure:
        return base.recorded(host, name, Category.SYNC, base.WAITS)

    return [
        *(Target(TENSOR, f"Tensor.{name}", closure=named(f"Tensor.{name}")) for name in READS),
        *(Target(module, path, closure=named(name), copies=copies) for module, path, name, copies in WAITS),
        Target(executor, "_PyNativeExecutor.sync", closure=named("pynative sync")),
    ]
