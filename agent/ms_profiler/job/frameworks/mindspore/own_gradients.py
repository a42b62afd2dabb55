"""Whether the script computes gradients itself: by hooks, by a `bprop` of a cell, by a function of its own.

In a backward pass nothing tells the kernels of such code from those of autograd. So from the first of these on passes
are recorded under a name of their own. What is wrapped is called when a hook is registered, or once a call of a cell
that has a `bprop`.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import Target, loaded, span
from ms_profiler.job.frameworks.mindspore import recompute
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

#: how a backward pass is called, by whether the script has a part in it
NAMES = ("backward", "backward with the script's gradients")
FUNCTIONS = "mindspore.common._grad_function"


def targets(session: "Session") -> list[Target]:
    """Declare what is wrapped around backward passes, and around what gives them functions of the script."""
    passes = [span(session, name, Category.BACKWARD) for name in NAMES]
    function = getattr(sys.modules.get(FUNCTIONS), "_Function", int)
    known = len(function.__subclasses__())
    own = False

    def note(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        nonlocal own
        own = own or not (args and type(args[0]).__module__ == recompute.MODULE)
        return wrapped(*args, **kwargs)

    def backward(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return passes[own or len(function.__subclasses__()) > known](wrapped, instance, args, kwargs)

    executor = loaded("mindspore.graph.api", "mindspore.common.api")
    return [
        Target(executor, "_PyNativeExecutor.grad", backward),
        Target(executor, "_PyNativeExecutor.call_custom_bprop", note),
        Target("mindspore.common.hook_handle", "_TensorHookHandle.__init__", note),
        Target("mindspore.nn.cell", "Cell.register_backward_hook", note),
        Target("mindspore.nn.cell", "Cell.register_backward_pre_hook", note),
    ]
