"""How many optimizers the job makes: what tells one step from the next when it alternates between them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks.base import Target

if TYPE_CHECKING:
    from ms_profiler.job.session import Session


def targets(session: "Session") -> list[Target]:
    """Declare the constructors of both families; their calls are calls of a cell, see `modules`."""

    def made(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = wrapped(*args, **kwargs)
        with session.guard("counting optimizers"):
            session.steps.optimizer_made()
        return result

    return [
        Target("mindspore.nn.optim.optimizer", "Optimizer.__init__", made),
        Target("mindspore.experimental.optim.optimizer", "Optimizer.__init__", made),
    ]
