"""Record the methods of the script's callbacks, such as `on_train_step_end`, while a framework's loop calls them.

The frameworks' own callbacks are not recorded here: what takes their time, such as saving a checkpoint, has spans of
its own. The methods belong to classes of the script. So ms-profiler wraps them when a loop begins, and restores them
when the loop ends.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base, trees
from ms_profiler.store.format import Category
from ms_profiler.store.names import CALLBACK

if TYPE_CHECKING:
    from ms_profiler.job.host import Host


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


class CallbackMethods:
    """Wrap the methods of callbacks during loops.

    Args:
        host: the session, which records the calls.
        packages: top-level packages whose classes are not of the script.
        called: returns whether a loop calls a method of this name.
    """

    def __init__(self, host: "Host", packages: tuple[str, ...], called: Callable[[str], bool]) -> None:
        self.host = host
        self._packages = (*packages, "ms_profiler")
        self._called = called
        #: (class, name of a method) -> the wrapped method
        self._wrapped: dict[tuple[type, str], _Wrapped] = {}
        #: id of a loop that runs -> what was wrapped for it
        self._loops: dict[int, list[tuple[type, str]]] = {}

    def began(self, loop: Any, callbacks: Iterable[Any]) -> None:
        """Wrap the methods of callbacks, because their loop begins.

        Args:
            loop: the object that stands for the loop.
            callbacks: the callbacks.
        """
        if id(loop) in self._loops:  # the loop calls itself, and has the callbacks already
            return
        found = self._loops[id(loop)] = list(self._methods(callbacks))
        for kind, name in found:
            if (kind, name) in self._wrapped:
                self._wrapped[kind, name].loops += 1
                continue
            original = trees.members(kind)[name]
            wrapper = base.recorded(self.host, f"{CALLBACK}{trees.name(kind)}.{name}", Category.OTHER)(original)
            self._wrapped[kind, name] = _Wrapped(original, wrapper)
            # the script's metaclass may define __setattr__, which must not run here
            type.__setattr__(kind, name, wrapper)

    def ended(self, loop: Any) -> None:
        """Restore the methods that were wrapped for a loop, because it ends."""
        for kind, name in self._loops.pop(id(loop), []):
            known = self._wrapped[kind, name]
            known.loops -= 1
            if known.loops:
                continue
            del self._wrapped[kind, name]
            if trees.members(kind).get(name) is known.wrapper:  # the script may have replaced the method in the loop
                type.__setattr__(kind, name, known.original)

    def _methods(self, callbacks: Iterable[Any]) -> Iterator[tuple[type, str]]:
        """Yield (class, name) for each method of the script that the loop may call, each once."""
        kinds = {kind: None for callback in callbacks for kind in trees.mro(type(callback))}
        for kind in kinds:
            own = trees.members(kind)
            if str(own.get("__module__")).partition(".")[0] not in self._packages:
                yield from ((kind, name) for name in own if type(own[name]) is FunctionType and self._called(name))


def listed(callbacks: Any) -> Iterable[Any]:
    """Return the items of a list; nothing for another object. A method of the script's list is not called."""
    return list.__iter__(callbacks) if issubclass(type(callbacks), list) else ()
