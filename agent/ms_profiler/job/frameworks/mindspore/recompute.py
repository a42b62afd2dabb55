"""Recomputation in pynative mode: the part of a backward pass that runs a block of the forward pass again.

In graph mode it is compiled into the graph, where its kernels carry "recompute" in their scope.
"""

import sys
import threading
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import RAISED, Target
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

MODULE = "mindspore.common.recompute"


class _Depth(threading.local):
    value = 0


_depth = _Depth()


def running() -> bool:
    """Return whether this thread is recomputing."""
    return _depth.value > 0


def _name(block: Any) -> str:
    """Name what is computed again by its class or function, through the wrappers that MindSpore puts around it."""
    for _ in range(4):
        if isinstance(block, MethodType):
            block = block.__self__
        elif type(block).__name__ == "_WrapCell":
            block = block.function
        elif isinstance(block, FunctionType) and block.__module__ == MODULE:
            inside = dict(zip(block.__code__.co_freevars, block.__closure__ or (), strict=True))
            cell = inside.get("block") or inside.get("wrapper_block")
            if cell is None:
                break
            block = cell.cell_contents
    return block.__qualname__ if isinstance(block, FunctionType) else type(block).__name__


def targets(session: "Session") -> list[Target]:
    """Declare what computes again, with and without reentrance."""
    recorder = session.recorder

    def record(wrapped: Callable[..., Any], block: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        token = 0
        with session.guard("naming a recomputation"):
            token = recorder.begin(recorder.intern(f"recompute {_name(block)}"), Category.BACKWARD)
        _depth.value += 1
        try:
            result = wrapped(*args, **kwargs)
        except BaseException:
            recorder.end(token, RAISED)
            raise
        finally:
            _depth.value -= 1
        recorder.end(token)
        return result

    def cell(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return record(wrapped, getattr(instance, "net", None), args, kwargs)

    def handle(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # called for each tensor that is wanted; only the first call computes
        if instance.is_recomputed.get(args[0] if args else kwargs.get("recompute_key")):
            return wrapped(*args, **kwargs)
        return record(wrapped, instance.recompute_fn, args, kwargs)

    def state(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # what computes is a closure that is made anew for each block, and only its state knows it
        if not args:
            return wrapped(*args, **kwargs)
        function = args[0]

        def again(*inputs: Any) -> Any:
            return record(function, function, inputs, {})

        return wrapped(again, *args[1:], **kwargs)

    without_reentrance = Target(MODULE, "_RecomputeHandle.recompute", handle)
    if hasattr(sys.modules.get(MODULE), "_RecomputeState"):  # until MindSpore 2.9
        without_reentrance = Target(MODULE, "_RecomputeState.__init__", state)
    return [Target(MODULE, "_RecomputeCell.bprop", cell), without_reentrance]
