"""Where the host waits for an accelerator: reads of tensors, copies between devices, and explicit waits.

On a build of PyTorch for CPU alone nothing of this waits, and nothing is replaced: a read takes half a microsecond
there, and would take twice as long.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import Inside, Target
from ms_profiler.job.frameworks.torch import closures
from ms_profiler.store.format import Category, Kind

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

TENSOR = "torch"
#: methods of a tensor that need its value on the host
READS = ("item", "tolist", "__bool__", "__int__", "__float__", "__index__")
#: methods that may copy a tensor to another device
COPIES = ("to", "cpu", "cuda")
#: (module, function or method, name of the span, copies)
WAITS = (
    ("torch.cuda", "synchronize", "cuda.synchronize", True),
    ("torch.cuda.streams", "Stream.synchronize", "Stream.synchronize", False),
    ("torch.cuda.streams", "Event.synchronize", "Event.synchronize", False),
    ("torch.accelerator", "synchronize", "accelerator.synchronize", True),
)


class Waits:
    """Record the outermost wait of a thread."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        self._inside = Inside()
        self._tracing = closures.traced()

    def reads(self, name: str) -> closures.Closure:
        """Return what makes the replacement of a method or function that waits."""
        inside, tracing = self._inside, self._tracing
        records = closures.recorded(self.session, name, Category.SYNC)

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            recorded = records(original)

            def wait(*args: Any, **kwargs: Any) -> Any:
                if tracing() or inside.value:
                    return original(*args, **kwargs)
                inside.value = True
                try:
                    return recorded(*args, **kwargs)
                finally:
                    inside.value = False

            return closures.replace(original, wait)

        return make

    def copies(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of a method that returns a tensor, which may lie on another device.

        Only where it does is there a span: to the host a wait, from it a part of feeding data, with its bytes.
        """
        recorder, tracing = self.session.recorder, self._tracing
        now, record, guard = recorder.now, recorder.record, self.session.guard
        to_host, to_device = recorder.intern("copy to the host"), recorder.intern("copy to the device")

        def copy(self: Any, *args: Any, **kwargs: Any) -> Any:
            if tracing():
                return original(self, *args, **kwargs)
            start = now()
            result = original(self, *args, **kwargs)
            if result is not self:
                with guard("noting a copy between devices"):
                    if result.device.type != self.device.type:
                        home = result.device.type == "cpu"
                        category, label = (Category.SYNC, to_host) if home else (Category.DATA, to_device)
                        record(Kind.SPAN, category, 0, label, start, now(), result.nbytes)
            return result

        return closures.replace(original, copy)


def accelerated() -> bool:
    """Return whether this build of PyTorch, or an extension of it, can use an accelerator."""
    torch = sys.modules["torch"]
    built = any(getattr(torch.version, kind, None) for kind in ("cuda", "hip", "xpu"))
    named = getattr(torch._C, "_get_privateuse1_backend_name", lambda: "privateuseone")()
    return built or named != "privateuseone"


def targets(session: "Session") -> list[Target]:
    """Declare what is wrapped around reads of tensors and waits."""
    if not accelerated():
        return []
    waits = Waits(session)
    return [
        *(Target(TENSOR, f"Tensor.{name}", closure=waits.reads(f"Tensor.{name}")) for name in READS),
        *(Target(TENSOR, f"Tensor.{name}", closure=waits.copies) for name in COPIES),
        *(Target(module, path, closure=waits.reads(name), copies=copies) for module, path, name, copies in WAITS),
    ]
