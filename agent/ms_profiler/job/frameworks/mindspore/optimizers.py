"""Count the optimizers that the job makes: a step ends after a full cycle of their calls."""

from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import Target

if TYPE_CHECKING:
    from ms_profiler.job.host import Host


def targets(host: "Host") -> list[Target]:
    """Declare the constructors of both families; their calls are calls of a cell, see `modules`."""

    def before(optimizer: Any, *_: Any, **__: Any) -> Any:
        return optimizer

    def made(optimizer: Any, result: Any, reason: BaseException | None) -> None:
        if reason is None:
            host.steps.optimizer_made(optimizer)

    closure = base.around(host, "counting optimizers", before, made)
    return [
        Target("mindspore.nn.optim.optimizer", "Optimizer.__init__", closure=closure),
        Target("mindspore.experimental.optim.optimizer", "Optimizer.__init__", closure=closure),
    ]
