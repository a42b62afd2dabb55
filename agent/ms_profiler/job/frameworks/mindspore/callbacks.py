"""Record the script's callbacks in the loops of `Model`."""

from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base, trees
from ms_profiler.job.frameworks.base import Target
from ms_profiler.job.frameworks.callback_methods import CallbackMethods, listed

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

MODULE = "mindspore.train.callback._callback"
_EVENTS = [f"{event}_{place}" for event in ("epoch", "step") for place in ("begin", "end")]
#: the methods that a loop calls
METHODS = frozenset(
    (
        *("begin", "end", *_EVENTS),
        *(f"on_{loop}_{event}" for loop in ("train", "eval") for event in ("begin", "end", *_EVENTS)),
    )
)


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap: those that enter and leave the callbacks of a loop."""
    callbacks = CallbackMethods(host, ("mindspore",), METHODS.__contains__)

    def began(manager: Any) -> None:
        callbacks.began(manager, listed(trees.attributes(manager).get("_callbacks")))

    def ended(manager: Any, result: Any, reason: BaseException | None) -> None:
        callbacks.ended(manager)

    ends = base.around(host, "restoring callbacks", lambda manager, *_, **__: manager, ended)
    return [
        Target(MODULE, "CallbackManager.__enter__", closure=base.following(host, "wrapping callbacks", began)),
        Target(MODULE, "CallbackManager.__exit__", closure=ends),
    ]
