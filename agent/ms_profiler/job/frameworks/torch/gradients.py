"""Backward passes: `Tensor.backward`, `autograd.backward` and `autograd.grad` all end in one function.

It is that one that is replaced: the others are known to Dynamo by what they are, and warn in the name of their caller.
A compilation traces a backward pass with it; that is time of the compilation.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import Target
from ms_profiler.job.frameworks.torch import closures
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

GRAPH = "torch.autograd.graph"


def targets(session: "Session") -> list[Target]:
    """Declare what is wrapped around backward passes."""
    compiling = sys.modules["torch.compiler"].is_compiling
    backward = closures.recorded(session, "backward", Category.BACKWARD)
    gradient = closures.recorded(session, "autograd.grad", Category.BACKWARD)

    def runs(original: Callable[..., Any]) -> Callable[..., Any]:
        accumulates, returns = backward(original), gradient(original)

        def _engine_run_backward(*args: Any, **kwargs: Any) -> Any:
            if compiling():
                return original(*args, **kwargs)
            return (accumulates if kwargs.get("accumulate_grad", True) else returns)(*args, **kwargs)

        return closures.replace(original, _engine_run_backward)

    return [Target(GRAPH, "_engine_run_backward", closure=runs, copies=True)]
