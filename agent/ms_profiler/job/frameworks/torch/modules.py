"""Module.__call__: where the time of a step goes, module by module.

The outermost call of a thread is a forward pass. Of what `torch.compile` took over only the outermost call passes
here. Dynamo goes straight to `forward` where it finds the `Module.__call__` that there was when it was imported; that
one is ours, mostly, since it is imported with the first use of `torch.compile`.
"""

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import RAISED, Labels, Target
from ms_profiler.job.frameworks.torch import closures
from ms_profiler.store.format import Category

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

MODULE = "torch.nn.modules.module"
#: (name id, category, id of the class's name)
Label = tuple[int, int, int]
#: modules that only stand around another one: class -> its attribute
AROUND = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "OptimizedModule": "_orig_mod",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
}
#: parts of a path that such modules put between others
BETWEEN = frozenset(AROUND.values()) - {"module"}


class Depth(threading.local):
    """In how many of an outermost call of a module, and of what computes modules again, this thread is."""

    value = 0


depth = Depth()


def contained(module: Any) -> Any:
    """Return what a module stands around, through any number of them; itself when around nothing."""
    for _ in range(len(AROUND)):
        inside = getattr(module, AROUND.get(type(module).__name__, ""), None)
        if inside is None:
            break
        module = inside
    return module


def paths(module: Any) -> Iterator[tuple[str, Any]]:
    """Give every module in this one, and its path from the outermost one, which begins with that one's class."""
    root = contained(module)
    title = type(root).__name__
    for path, inner in root.named_modules():
        parts = [part for part in path.split(".") if part and part not in BETWEEN]
        yield ".".join([title, *parts]), inner


class Modules:
    """Name modules by their place in the outermost one; a module that moves keeps its first name."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        self.labels: Labels[Label] = Labels(self._describe)

    def _describe(self, module: Any) -> Label:
        known = self.labels.known
        for name, inner in paths(module):
            if inner is not module and id(inner) not in known:
                self.labels.put(inner, self._label(inner, name))
        return self._label(module, type(module).__name__)

    def _label(self, module: Any, name: str) -> Label:
        intern = self.session.recorder.intern
        return intern(name), int(Category.MODULE), intern(type(module).__name__)

    def _named(self, module: Any) -> Label:
        with self.session.guard("naming a module"):
            return self.labels.add(module)
        return 0, int(Category.MODULE), 0

    def call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `Module.__call__`."""
        session, recorder = self.session, self.session.recorder
        known, named, outermost = self.labels.known, self._named, self._outermost(original)
        begin, end, tracing, inside = recorder.begin, recorder.end, closures.traced(), depth

        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - stands in for the method
            if tracing():
                return original(self, *args, **kwargs)
            try:
                label = known[id(self)]
            except KeyError:
                label = named(self)
            if not inside.value:
                return outermost(label, self, args, kwargs)
            token = begin(*label)
            try:
                # one argument, as usual: passed as one it takes 0.2 us less than as what may be any arguments
                one = len(args) == 1 and not kwargs
                result = original(self, args[0]) if one else original(self, *args, **kwargs)
            except BaseException as reason:
                end(token, closures.flags_of(reason))
                raise
            end(token)
            return result

        replacement = closures.replace(original, __call__)
        with session.guard("telling Dynamo about Module.__call__"):
            _pass_for(original, replacement)
        return replacement

    def _outermost(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return what runs a call that is in no other: a forward pass, and for the steps a call of a network.

        Without gradients it is an evaluation, with which no step begins.
        """
        session, recorder, forked, inside = self.session, self.session.recorder, base.forked, depth
        begin, end, now = recorder.begin, recorder.end, recorder.now
        forward, category = recorder.intern("forward"), int(Category.FORWARD)
        trains = sys.modules["torch"].is_grad_enabled

        def left(module: Any) -> None:
            try:  # no guard: it takes a microsecond, and this is done every step
                session.steps.call_ended(id(module), now())
            except Exception as reason:  # noqa: BLE001
                session.failed("marking a call", reason)

        def call(label: Label, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            try:
                at = now()
                if trains():
                    session.steps.began(at)
                session.steps.call_began(at)
            except Exception as reason:  # noqa: BLE001
                session.failed("marking a step", reason)
            around = begin(forward, category)
            if not around and forked:
                forked[0].reopen()
                around = begin(forward, category)
            token = begin(*label)
            inside.value = 1
            try:
                result = original(module, *args, **kwargs)
            except BaseException:
                end(token, RAISED)
                end(around, RAISED)
                left(module)
                raise
            finally:
                inside.value = 0
            end(token)
            end(around)
            left(module)
            return result

        return closures.unseen(call)


def _pass_for(original: Any, replacement: Any) -> None:
    """Have Dynamo take ours for `Module.__call__` where it was imported before us."""
    for name in ("torch._dynamo.utils", "torch._dynamo.variables.nn_module"):
        module = sys.modules.get(name)
        if getattr(module, "unpatched_nn_module_call", None) is original:
            module.unpatched_nn_module_call = replacement  # type: ignore[union-attr]


def targets(session: "Session") -> list[Target]:
    """Declare what is wrapped around modules."""
    call = functools.cache(Modules(session).call)
    # one function under two names; it is pickled by the second
    return [Target(MODULE, f"Module.{name}", closure=call) for name in ("__call__", "_wrapped_call_impl")]
