"""Where the host waits for results."""

from typing import TYPE_CHECKING

from ms_profiler.job.frameworks.base import Target, span
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.session import Session


def targets(session: "Session") -> list[Target]:
    """Declare what is wrapped around reads of tensors."""
    return [Target("mindspore.common.tensor", "Tensor.asnumpy", span(session, "Tensor.asnumpy", Category.SYNC))]
