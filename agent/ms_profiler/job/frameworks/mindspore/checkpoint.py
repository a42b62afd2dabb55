"""Saving and loading checkpoints."""

from typing import TYPE_CHECKING

from ms_profiler.job.frameworks.base import Target, span
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

MODULE = "mindspore.train.serialization"


def targets(session: "Session") -> list[Target]:
    """Declare what is wrapped around checkpoints; other modules hold ten copies of these by value."""
    return [
        Target(MODULE, name, span(session, name, Category.CHECKPOINT), copies=True)
        for name in ("save_checkpoint", "load_checkpoint", "load_param_into_net")
    ]
