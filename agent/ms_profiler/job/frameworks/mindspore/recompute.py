"""Record recomputation in pynative mode: the part of a backward pass that runs a block of the forward pass again.

In graph mode, MindSpore compiles the recomputation into the graph. Then the kernels of a recomputation have "recompute"
in their names.
"""

import sys
import threading
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base, trees
from ms_profiler.job.frameworks.base import Target, keep_signature
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

MODULE = "mindspore.common.recompute"
#: classes of the cells that MindSpore puts around a cell to be recomputed, and around a method of this cell
CELLS = ("_RecomputeCell", "_WrapCell")


class _Depth(threading.local):
    value = 0


_depth = _Depth()


def running() -> bool:
    """Return whether this thread runs a part of the forward pass again, for a backward pass."""
    return _depth.value > 0


def _name(block: Any) -> str:
    """Return the name of the recomputed class or function; MindSpore has put up to four wrappers around it."""
    for _ in range(4):
        if type(block) is MethodType:
            block = block.__self__
        elif trees.kind_name(block) == CELLS[1]:
            block = block.function
        elif type(block) is FunctionType and block.__module__ == MODULE:
            inside = dict(zip(block.__code__.co_freevars, block.__closure__ or (), strict=True))
            cell = inside.get("block", inside.get("wrapper_block"))
            if cell is None:
                break
            block = cell.cell_contents
    return block.__qualname__ if type(block) is FunctionType else trees.kind_name(block)


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap, for MindSpore's two kinds of recomputation: with and without `use_reentrant`."""
    recorder = host.recorder

    def begin(block: Any) -> int:
        token = 0
        with host.guard("naming a recomputation"):
            token = recorder.begin(recorder.intern(f"recompute {_name(block)}"), Category.BACKWARD)
        _depth.value += 1
        return token

    def end(token: int, result: Any, reason: BaseException | None) -> None:
        _depth.value -= 1
        recorder.end(token, 0 if reason is None else base.flags_of(reason))

    def around(before: Callable[..., Any]) -> base.Closure:
        return base.around(host, "recording a recomputation", before, end)

    def cell(instance: Any, *_: Any, **__: Any) -> int:
        return begin(trees.held(instance, "net", "_cells"))

    def handle(instance: Any, *args: Any, **kwargs: Any) -> int | None:
        # MindSpore calls this function for each tensor that the backward pass needs. Only the first call recomputes.
        if instance.is_recomputed.get(args[0] if args else kwargs.get("recompute_key")):
            return None
        return begin(instance.recompute_fn)

    def state(original: Callable[..., Any]) -> Callable[..., Any]:
        # MindSpore makes a new function for each block to recompute, and stores it only in the state object. So wrap
        # the constructor of the state object.
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - stands in for the method
            if args:
                args = around(lambda *_, block=args[0], **__: begin(block))(args[0]), *args[1:]
            original(self, *args, **kwargs)

        return keep_signature(original, __init__)

    without_reentrance = Target(MODULE, "_RecomputeHandle.recompute", closure=around(handle))
    if hasattr(sys.modules.get(MODULE), "_RecomputeState"):  # exists up to MindSpore 2.9
        without_reentrance = Target(MODULE, "_RecomputeState.__init__", closure=state)
    return [Target(MODULE, "_RecomputeCell.bprop", closure=around(cell)), without_reentrance]
