"""Count the optimizers that the job makes, because a step ends when all optimizers have been called once."""

from typing import TYPE_CHECKING

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import Target

if TYPE_CHECKING:
    from ms_profiler.job.host import Host


def targets(host: "Host") -> list[Target]:
    """Return the constructors of MindSpore's optimizers, to wrap them; the module `modules` wraps their calls."""
    closure = base.following(host, "counting optimizers", host.steps.optimizer_made)
    return [
        Target("mindspore.nn.optim.optimizer", "Optimizer.__init__", closure=closure),
        Target("mindspore.experimental.optim.optimizer", "Optimizer.__init__", closure=closure),
    ]
