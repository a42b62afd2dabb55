"""Pynative mode: forward and backward, as the gradient functions run them.

`grad`, `value_and_grad`, `vjp`, `jvp` and `GradOperation`, under all their names, end in the same two functions; there
is no `Tensor.backward` in MindSpore. In graph mode and under `@jit` the gradient is part of the compiled graph. On CPU
a call returns when its work is queued or done, as MindSpore decides: these are times of the host.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import Target, span
from ms_profiler.job.frameworks.mindspore import own_gradients, recompute
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

GRADIENTS = "mindspore.ops.composite.base"
#: The forward pass by version, the innermost function first: where there is the first one, the second calls it.
FORWARDS = ("_pynative_func_grad_forward", "_pynative_forward_run")
#: The same before it was a function: both classes have a method of their own. It takes the function first, too.
CLASSES = ("GradOperation", "_Grad")


def targets(session: "Session") -> list[Target]:
    """Declare what is wrapped around gradients."""
    record = span(session, "forward", Category.FORWARD)
    now = session.recorder.now
    again = span(session, "recompute forward", Category.BACKWARD)

    def forward(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if recompute.running():
            return again(wrapped, instance, args, kwargs)
        steps = session.steps
        with session.guard("noting the begin of a step"):
            at = now()
            steps.began(at)
            steps.call_began(at)
        try:
            return record(wrapped, instance, args, kwargs)
        finally:
            with session.guard("noting the end of a forward pass"):
                steps.call_ended(id(args[0]) if args else 0, now())

    there = vars(sys.modules.get(GRADIENTS, recompute))
    name = next((name for name in FORWARDS if name in there), "")
    methods = [f"{kind}.{FORWARDS[1]}" for kind in CLASSES if hasattr(there.get(kind), FORWARDS[1])]
    paths = [name] if name else methods or [FORWARDS[0]]
    return [
        *(Target(GRADIENTS, path, forward, copies=bool(name)) for path in paths),
        *own_gradients.targets(session),
        *recompute.targets(session),
    ]
