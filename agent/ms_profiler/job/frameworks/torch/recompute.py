"""Record activation checkpointing: the part of a backward pass that runs a block of the forward pass again.

With `use_reentrant=True`, `CheckpointFunction.backward` recomputes the block and then runs a nested backward pass,
which has its own span. With `use_reentrant=False`, PyTorch makes a function for each block, and this function
recomputes the block. Compiled code uses neither of the two, because the compiled backward pass contains the
recomputation.
"""

import functools
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base, trees
from ms_profiler.job.frameworks.base import Target
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

MODULE = "torch.utils.checkpoint"
#: types of functions; their objects have a `__qualname__`
FUNCTIONS = (FunctionType, BuiltinFunctionType)


def _name(block: Any) -> str:
    """Return the name of the recomputed class or function, also if it is in a bound method or partial function."""
    for _ in range(4):
        if type(block) is MethodType:
            block = block.__self__
        elif type(block) is functools.partial:
            block = block.func
        else:
            break
    return block.__qualname__ if type(block) in FUNCTIONS else trees.kind_name(block)


def _block(recompute: Any) -> Any:
    """Return the script's function that a closure of PyTorch runs again; the closure itself if none is found in it."""
    for name, cell in zip(recompute.__code__.co_freevars, recompute.__closure__ or (), strict=True):
        if name == "fn":
            return cell.cell_contents
    return recompute


class Recomputation:
    """Record recomputations, and see to it that modules called in a recomputation do not count as a forward pass."""

    def __init__(self, host: "Host") -> None:
        self.host = host

    def _began(self, block: Any) -> int:
        recorder, token = self.host.recorder, 0
        with self.host.guard("naming a recomputation"):
            token = recorder.begin(recorder.intern(f"recompute {_name(block)}"), Category.BACKWARD)
        recorder.nest(base.MODULES, 1)
        return token

    def _ended(self, token: int, result: Any, reason: BaseException | None) -> None:
        self.host.recorder.nest(base.MODULES, -1)
        self.host.recorder.end(token, 0 if reason is None else base.flags_of(reason))

    def reentrant(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `CheckpointFunction.backward`, which recomputes with `use_reentrant=True`."""

        def before(ctx: Any, *_: Any) -> int:
            return self._began(trees.attributes(ctx).get("run_function", original))

        return base.around(self.host, "recording a recomputation", before, self._ended)(original)

    def frame(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `_CheckpointFrame.__init__`, which gets the function that recomputes a block."""

        def after(frame: Any, result: Any, reason: BaseException | None) -> None:
            held = trees.attributes(frame)
            recompute = held.get("recompute_fn")
            if reason is None and recompute is not None:
                held["recompute_fn"] = self._again(recompute)

        return base.around(self.host, "following a checkpoint", lambda frame, *_, **__: frame, after)(original)

    def _again(self, recompute: Callable[..., Any]) -> Callable[..., Any]:
        block = _block(recompute)

        def before(*_: Any, **__: Any) -> int:
            return self._began(block)

        return base.around(self.host, "recording a recomputation", before, self._ended)(recompute)


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap, for recomputation with `use_reentrant=True` and with `use_reentrant=False`."""
    recomputation = Recomputation(host)
    return [
        Target(MODULE, "CheckpointFunction.backward", closure=recomputation.reentrant),
        Target(MODULE, "_CheckpointFrame.__init__", closure=recomputation.frame),
    ]
