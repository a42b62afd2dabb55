"""Where the host waits for results: reads of tensors, and waits for the device.

One read may call another; only the outermost is recorded.
"""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import RAISED, Target, keep_signature, loaded
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

TENSOR = "mindspore.common.tensor"
#: methods of a tensor that need its value on the host
READS = ("item", "tolist", "__float__", "__int__", "__bool__", "__index__", "__repr__")
#: (module, function or method, name of the span, copies)
WAITS = (
    ("mindspore.runtime.stream", "synchronize", "runtime.synchronize", True),
    ("mindspore.runtime.stream", "Stream.synchronize", "Stream.synchronize", False),
    ("mindspore.runtime.event", "Event.synchronize", "Event.synchronize", False),
    ("mindspore.hal.stream", "synchronize", "hal.synchronize", True),
    ("mindspore.hal.stream", "Stream.synchronize", "Stream.synchronize", False),
    ("mindspore.hal.event", "Event.synchronize", "Event.synchronize", False),
)


class Waits:
    """Record the outermost wait of a thread as a span."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        self._inside = base.Inside()

    def innermost(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return what makes the replacement of a method without arguments that waits, and calls no other that does.

        In a version where it takes any, it is replaced as the others are.
        """
        recorder, inside, forked = self.session.recorder, self._inside, base.forked
        label, category = recorder.intern(name), int(Category.SYNC)
        begin, end = recorder.begin, recorder.end

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            if not _takes_nothing(original):
                return self.named(name)(original)

            def wait(self: Any) -> Any:
                if inside.value:
                    return original(self)
                token = begin(label, category)
                if not token and forked:
                    forked[0].reopen()
                    token = begin(label, category)
                try:
                    result = original(self)
                except BaseException:
                    end(token, RAISED)
                    raise
                end(token)
                return result

            return keep_signature(original, wait)

        return make

    def named(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return what makes the replacement of a function or method that waits."""
        recorder, inside, forked = self.session.recorder, self._inside, base.forked
        label, category = recorder.intern(name), int(Category.SYNC)
        begin, end = recorder.begin, recorder.end

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def wait(*args: Any, **kwargs: Any) -> Any:
                if inside.value:
                    return original(*args, **kwargs)
                token = begin(label, category)
                if not token and forked:
                    forked[0].reopen()
                    token = begin(label, category)
                inside.value = True
                try:
                    result = original(*args, **kwargs)
                except BaseException:
                    end(token, RAISED)
                    raise
                finally:
                    inside.value = False
                end(token)
                return result

            return keep_signature(original, wait)

        return make


def _takes_nothing(method: Callable[..., Any]) -> bool:
    code = getattr(method, "__code__", None)
    several = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    return code is not None and (code.co_argcount, code.co_kwonlyargcount, code.co_flags & several) == (1, 0, 0)


def targets(session: "Session") -> list[Target]:
    """Declare what is wrapped around reads of tensors and waits."""
    waits = Waits(session)
    executor = loaded("mindspore.graph.api", "mindspore.common.api")
    return [
        Target(TENSOR, "Tensor.asnumpy", closure=waits.innermost("Tensor.asnumpy")),  # done every step
        *(Target(TENSOR, f"Tensor.{name}", closure=waits.named(f"Tensor.{name}")) for name in READS),
        *(Target(module, path, closure=waits.named(name), copies=copies) for module, path, name, copies in WAITS),
        Target(executor, "_PyNativeExecutor.sync", closure=waits.named("pynative sync")),
    ]
