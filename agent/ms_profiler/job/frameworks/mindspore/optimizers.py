"""Count the optimizers that the job makes: a step ends after a full cycle of their calls."""

from typing import TYPE_CHECKING

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import Target

if TYPE_CHECKING:
    from ms_profiler.job.host import Host


def targets(host: "Host") -> list[Target]:
    """Declare the constructors of both families; their calls are calls of a cell, see `modules`."""
    closure = base.following(host, "counting optimizers", host.steps.optimizer_made)
    return [
        Target("mindspore.nn.optim.optimizer", "Optimizer.__init__", closure=closure),
        Target("mindspore.experimental.optim.optimizer", "Optimizer.__init__", closure=closure),
    ]
