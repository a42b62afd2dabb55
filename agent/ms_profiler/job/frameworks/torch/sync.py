"""Record where the host waits for an accelerator: reads of tensors, copies between devices, and explicit waits.

A build of PyTorch for CPU only has no accelerator to wait for. There, to read a tensor takes half a microsecond, and a
hook would double this time. So ms-profiler replaces no function in such a build.
"""

import sys
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import Target
from ms_profiler.job.frameworks.torch import tensors
from ms_profiler.store.format import Category, Kind

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

TENSOR = "torch"
#: methods of a tensor that need its value on the host
READS = ("item", "tolist", "__bool__", "__int__", "__float__", "__index__")
#: methods that may copy a tensor to another device
COPIES = ("to", "cpu", "cuda")
#: (module, function or method, name of the span, whether to replace it also in modules that imported it by its name)
WAITS = (
    ("torch.cuda", "synchronize", "cuda.synchronize", True),
    ("torch.cuda.streams", "Stream.synchronize", "Stream.synchronize", False),
    ("torch.cuda.streams", "Event.synchronize", "Event.synchronize", False),
    ("torch.accelerator", "synchronize", "accelerator.synchronize", True),
)


def copies(host: "Host") -> base.Closure:
    """Return a decorator for a method of a tensor whose result may lie on another device.

    If a call does not copy to another device, it gets no span. A copy to the host counts as a wait, and a copy from the
    host as a transfer of data. The argument of the span is the number of copied bytes.
    """
    recorder = host.recorder
    now, record = recorder.now, recorder.record
    to_host, to_device = recorder.intern("copy to the host"), recorder.intern("copy to the device")

    def before(tensor: Any, *_: Any, **__: Any) -> tuple[Any, int]:
        return tensor, now()

    def after(call: tuple[Any, int], result: Any, reason: BaseException | None) -> None:
        tensor, start = call
        if reason is not None or result is tensor:
            return
        came, went = tensors.read(tensor, "device"), tensors.read(result, "device")
        if came is not None and went is not None and came.type != went.type:
            home = went.type == "cpu"
            category, label = (Category.SYNC, to_host) if home else (Category.DATA, to_device)
            record(Kind.SPAN, category, 0, label, start, now(), tensors.size(result))

    return base.around(host, "noting a copy between devices", before, after)


def accelerated() -> bool:
    """Return whether this build of PyTorch, or an extension of it, can use an accelerator."""
    torch = sys.modules["torch"]
    built = any(getattr(torch.version, kind, None) for kind in ("cuda", "hip", "xpu"))
    named = getattr(torch._C, "_get_privateuse1_backend_name", lambda: "privateuseone")()
    return built or named != "privateuseone"


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap: those that read tensors or wait for the device."""
    if not accelerated():
        return []

    def waits(name: str) -> base.Closure:
        return base.recorded(host, name, Category.SYNC, base.WAITS)

    copy = copies(host)
    methods = [
        *(Target(TENSOR, f"Tensor.{name}", closure=waits(f"Tensor.{name}")) for name in READS),
        *(Target(TENSOR, f"Tensor.{name}", closure=copy) for name in COPIES),
    ]
    return [
        # these methods are written in C, and a function in Python that replaces one of them cannot be pickled
        *(methods if host.recorder.kind == "native" else ()),
        *(Target(module, path, closure=waits(name), copies=everywhere) for module, path, name, everywhere in WAITS),
    ]
