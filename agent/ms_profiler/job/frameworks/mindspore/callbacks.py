"""Record the methods of the script's callbacks, such as `on_train_step_end`, while a loop of `Model` calls them.

MindSpore's own callbacks are not recorded here: what takes their time, such as saving a checkpoint, has spans of its
own. The methods belong to classes of the script. So ms-profiler wraps them when a loop begins, and restores them when
the loop ends.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base, trees
from ms_profiler.job.frameworks.base import Target
from ms_profiler.store.format import Category
from ms_profiler.store.names import CALLBACK

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

MODULE = "mindspore.train.callback._callback"
#: top-level modules whose classes are not of the script
_NOT_THE_SCRIPTS = ("mindspore", "ms_profiler")
_EVENTS = [f"{event}_{place}" for event in ("epoch", "step") for place in ("begin", "end")]
#: the methods that a loop calls
METHODS = (
    *("begin", "end", *_EVENTS),
    *(f"on_{loop}_{event}" for loop in ("train", "eval") for event in ("begin", "end", *_EVENTS)),
)


@dataclass
class _Wrapped:
    """A method of a callback that is wrapped.

    Attributes:
        original: the script's method.
        wrapper: what stands in its place.
        loops: number of running loops that need the wrapper.
    """

    original: Any
    wrapper: Any
    loops: int = 1


class Callbacks:
    """Wrap the methods of callbacks during loops.

    Args:
        host: the session, which records the calls.
    """

    def __init__(self, host: "Host") -> None:
        self.host = host
        #: (class, name of a method) -> the wrapped method
        self._wrapped: dict[tuple[type, str], _Wrapped] = {}
        #: id of a manager of callbacks whose loop runs -> what was wrapped for it
        self._loops: dict[int, list[tuple[type, str]]] = {}

    def began(self, manager: Any) -> None:
        """Wrap the methods of the callbacks in a manager, because its loop begins."""
        found = self._loops[id(manager)] = list(_methods(trees.attributes(manager).get("_callbacks")))
        for kind, name in found:
            if (kind, name) in self._wrapped:
                self._wrapped[kind, name].loops += 1
                continue
            original = trees.members(kind)[name]
            wrapper = base.recorded(self.host, f"{CALLBACK}{trees.name(kind)}.{name}", Category.OTHER)(original)
            self._wrapped[kind, name] = _Wrapped(original, wrapper)
            # the script's metaclass may define __setattr__, which must not run here
            type.__setattr__(kind, name, wrapper)

    def ended(self, manager: Any, result: Any, reason: BaseException | None) -> None:
        """Restore the methods that were wrapped for a manager, because its loop ends."""
        for kind, name in self._loops.pop(id(manager), []):
            known = self._wrapped[kind, name]
            known.loops -= 1
            if known.loops:
                continue
            del self._wrapped[kind, name]
            if trees.members(kind).get(name) is known.wrapper:  # the script may have replaced the method in the loop
                type.__setattr__(kind, name, known.original)


def _methods(callbacks: Any) -> Iterator[tuple[type, str]]:
    """Yield (class, name) for each method of the script that the loop may call, each once."""
    if not issubclass(type(callbacks), list):
        return
    kinds = {kind: None for callback in list.__iter__(callbacks) for kind in trees.mro(type(callback))}
    for kind in kinds:
        own = trees.members(kind)
        if str(own.get("__module__")).partition(".")[0] not in _NOT_THE_SCRIPTS:
            yield from ((kind, name) for name in METHODS if type(own.get(name)) is FunctionType)


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap: those that enter and leave the callbacks of a loop."""
    callbacks = Callbacks(host)
    ends = base.around(host, "restoring callbacks", lambda manager, *_, **__: manager, callbacks.ended)
    return [
        Target(
            MODULE, "CallbackManager.__enter__", closure=base.following(host, "wrapping callbacks", callbacks.began)
        ),
        Target(MODULE, "CallbackManager.__exit__", closure=ends),
    ]
