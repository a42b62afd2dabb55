"""Count the optimizers that the job makes, because a step ends after a full cycle of calls of all optimizers."""

from typing import TYPE_CHECKING

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import Target

if TYPE_CHECKING:
    from ms_profiler.job.host import Host


def targets(host: "Host") -> list[Target]:
    """Declare the constructors of MindSpore's two families of optimizers; `modules` records the optimizers' calls."""
    closure = base.following(host, "counting optimizers", host.steps.optimizer_made)
    return [
        Target("mindspore.nn.optim.optimizer", "Optimizer.__init__", closure=closure),
        Target("mindspore.experimental.optim.optimizer", "Optimizer.__init__", closure=closure),
    ]
