"""Pynative mode: forward and backward, as the gradient functions run them.

On CPU a call returns when its work is queued or done, as MindSpore decides: these are times of the host.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import Target, span
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

GRADIENTS = "mindspore.ops.composite.base"
EXECUTOR = "mindspore.graph.api"


def targets(session: "Session") -> list[Target]:
    """Declare what is wrapped around gradients."""
    record = span(session, "forward", Category.FORWARD)

    def forward(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with session.guard("noting the begin of a step"):
            session.steps.began(session.recorder.now())
        return record(wrapped, instance, args, kwargs)

    return [
        Target(GRADIENTS, "_pynative_forward_run", forward, copies=True),
        Target(GRADIENTS, "_pynative_func_grad_forward", forward, copies=True),
        Target(EXECUTOR, "_PyNativeExecutor.grad", span(session, "backward", Category.BACKWARD)),
        Target(EXECUTOR, "_PyNativeExecutor.sync", span(session, "pynative sync", Category.SYNC)),
    ]
