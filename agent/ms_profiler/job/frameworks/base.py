"""What a framework plugin is: it declares what it wraps, this module decides how and can undo it.

A plugin is a folder with one file per concern; each offers `targets(host)`, a list of `Target`. A target that is not
there, in this version or this build of the framework, is noted in the run's record and costs nothing else.
"""

import functools
import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ms_profiler.job.recorder.contract import Recorder
from ms_profiler.job.recorder.python_wrapper import RAISED as RAISED, flags_of as flags_of

if TYPE_CHECKING:
    from ms_profiler.job.host import Host
    from ms_profiler.job.sources import Sources

#: What is called around each call: wrapper(wrapped, instance, args, kwargs), as wrapt has it
Wrapper = Callable[[Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]], Any]


@dataclass(frozen=True)
class Target:
    """One callable to wrap.

    Args:
        module: where it lives.
        path: its dotted name in the module, "Model.train".
        closure: a function from the original to its replacement: `recorded`, `around`, or one that keeps `__wrapped__`.
        wrapper: instead, called around each call, with frames of ours, where that harms nobody.
        copies: replace as well what other modules of the framework imported by value, under the same name.
        group: name to keep account under, where one declaration makes many targets; its own otherwise.
    """

    module: str
    path: str
    wrapper: Wrapper | None = None
    closure: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None
    copies: bool = False
    group: str = ""

    @property
    def name(self) -> str:
        """Return the name to keep account under: the full dotted one, or the group's."""
        return self.group or f"{self.module}.{self.path}"


class MissingError(Exception):
    """The target is not in this version of the framework."""


class Plugin:
    """Apply the targets of one framework, keep account of them, and undo them.

    Args:
        framework: name of the framework's top-level module.
        concerns: functions that declare targets.
    """

    def __init__(self, framework: str, concerns: Iterable[Callable[["Host"], list[Target]]]) -> None:
        self.framework = framework
        self._concerns = tuple(concerns)
        self._undo: list[tuple[Callable[[], Any], str, Any]] = []
        self._sources: list[tuple[Sources, list[Callable[..., Any]]]] = []
        #: full name of each target -> "applied", "missing: why" or "failed: why"
        self.state: dict[str, str] = {}

    def apply(self, host: "Host") -> None:
        """Wrap every target that is there; never raise."""
        self.state.clear()
        self._apply_quickly(host, self._concerns)

    def add(self, host: "Host", concern: Callable[["Host"], list[Target]]) -> None:
        """Wrap the targets of one concern as well; never raise."""
        self._apply_quickly(host, (concern,))

    def redirect(self, host: "Host") -> None:
        """Replace the framework's own profiler, if it has one, by our classes of the same interface."""

    def _apply_quickly(self, host: "Host", concerns: Iterable[Callable[["Host"], list[Target]]]) -> None:
        # what is made here stays; looking through all of a framework's objects for garbage would take 100 ms
        collecting = gc.isenabled()
        gc.disable()
        try:
            self._apply_all(host, concerns)
        finally:
            if collecting:
                gc.enable()

    def _apply_all(self, host: "Host", concerns: Iterable[Callable[["Host"], list[Target]]]) -> None:
        copies: dict[str, list[tuple[Any, Any]]] = {}
        before = host.sources.calls
        for concern in concerns:
            for target in self._declared(concern, host):
                try:
                    original, replacement = self._apply(target)
                except MissingError as reason:
                    self.state.setdefault(target.name, f"missing: {reason}")
                except Exception as reason:  # noqa: BLE001 - one hook that fails costs that hook, nothing else
                    host.failed(f"hook {target.name}", reason)
                    self.state[target.name] = f"failed: {type(reason).__name__}: {reason}"
                else:
                    if not self.state.get(target.name, "").startswith("failed"):
                        self.state[target.name] = "applied"
                    if target.copies:
                        copies.setdefault(target.path, []).append((original, replacement))
        if copies:
            self._replace_copies(copies)
        self._sources.append((host.sources, [call for call in host.sources.calls if call not in before]))

    @property
    def left_running(self) -> str:
        """Return why the framework's own profiler was left running; empty when it was not."""
        return ""

    @property
    def forwarded_options(self) -> tuple[str, ...]:
        """Return the options passed on to the framework's own profiler, because it was left running."""
        return ()

    def describe(self) -> dict[str, str]:
        """Return the framework's mode and device, which are known only at the end of the run."""
        return {}

    def undo(self) -> None:
        """Put every original back, last one first, and end the sources that came with them."""
        while self._sources:
            sources, calls = self._sources.pop()
            sources.drop(calls)
        while self._undo:
            reference, attribute, original = self._undo.pop()
            owner = reference()
            if owner is None:
                continue
            if original is _ABSENT:
                delattr(owner, attribute)
            else:
                setattr(owner, attribute, original)

    def _declared(self, concern: Callable[["Host"], list[Target]], host: "Host") -> list[Target]:
        try:
            return concern(host)
        except Exception as reason:  # noqa: BLE001 - as above
            host.failed(f"hooks of {concern.__module__}", reason)
            self.state[concern.__module__] = f"failed: {type(reason).__name__}: {reason}"
            return []

    def _apply(self, target: Target) -> tuple[Any, Any]:
        owner, attribute, original = _resolve(target)
        static = isinstance(original, staticmethod)
        function = original.__func__ if static else original
        if target.closure is not None:
            replacement = target.closure(function)
        else:
            assert target.wrapper is not None, target.name
            replacement = wrap(function, target.wrapper, isinstance(owner, type) and not static)
        if static:
            replacement = staticmethod(replacement)
        self._set(owner, attribute, replacement)
        return original, replacement

    def _set(self, owner: Any, attribute: str, value: Any) -> None:
        # weakly, because a module that is held beyond the end of the interpreter has its names set to None there, and
        # MindSpore's __del__ methods, which use them, then print errors
        self._undo.append((weakref.ref(owner), attribute, vars(owner).get(attribute, _ABSENT)))
        setattr(owner, attribute, value)

    def _replace_copies(self, copies: dict[str, list[tuple[Any, Any]]]) -> None:
        """Replace what modules of the framework imported by value before we came.

        By name, then identity: 2 ms for MindSpore's thousand modules, where comparing every value takes 18.
        """
        prefix = self.framework + "."
        for name, module in list(sys.modules.items()):
            if module is None or not (name == self.framework or name.startswith(prefix)):
                continue
            names = vars(module)
            for attribute in names.keys() & copies.keys():
                for original, replacement in copies[attribute]:
                    if names[attribute] is original:
                        self._set(module, attribute, replacement)
                        break


_ABSENT = object()


def wrap(original: Any, wrapper: Wrapper, method: bool = False) -> Any:
    """Return what calls `wrapper` around `original`.

    In place of a function stands a function: it can be pickled by its name, which what wrapt makes cannot.

    Args:
        original: any callable.
        wrapper: called around each call.
        method: the first argument of a call is the instance.
    """
    if not isinstance(original, FunctionType):
        import wrapt  # 40 ms: only here, once a framework is loaded anyway

        return wrapt.FunctionWrapper(original, wrapper)
    if method:

        def call_method(self: Any, *args: Any, **kwargs: Any) -> Any:
            return wrapper(original.__get__(self), self, args, kwargs)

        return keep_signature(original, call_method)

    def call(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, None, args, kwargs)

    return keep_signature(original, call)


def loaded(*modules: str) -> str:
    """Return the first of these modules that is loaded, or else the first: one thing lies in several by version."""
    return next((module for module in modules if module in sys.modules), modules[0])


def _resolve(target: Target) -> tuple[Any, str, Any]:
    module = sys.modules.get(target.module)
    if module is None:
        raise MissingError(f"module {target.module} is not loaded")
    owner: Any = module
    *parents, attribute = target.path.split(".")
    for parent in parents:
        owner = getattr(owner, parent, None)
        if owner is None:
            raise MissingError(f"{target.module} has no {parent}")
    # vars first: what getattr binds (static and class methods) is not what has to be put back
    original = vars(owner).get(attribute, _ABSENT)
    if original is _ABSENT:
        original = getattr(owner, attribute, _ABSENT)
    if original is _ABSENT:
        raise MissingError(f"{'.'.join([target.module, *parents])} has no {attribute}")
    return owner, attribute, original


class Inside(threading.local):
    """Whether this thread is inside of a call of which only the outermost is recorded."""

    value = False


#: In a fork child: the session that has to be opened anew before the child can record. Else empty.
forked: list["Host"] = []


Closure = Callable[[Callable[..., Any]], Callable[..., Any]]


#: kinds of calls of which only the outermost of a thread counts: of modules, of what waits for a device, of cells
MODULES, WAITS, CELLS = 1, 2, 3


def recorded(host: "Host", label: str, category: int, outermost: int = 0) -> Closure:
    """Return what makes the replacement of a function whose calls are spans with a fixed name.

    Args:
        host: that records.
        label: the name.
        category: of the spans.
        outermost: the kind of calls, where a call in another of its kind is not recorded; 0 for none.
    """
    recorder, failed = host.recorder, host.guard(f"recording {label}")
    name = recorder.intern(label)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        return recorder.wrap(
            original, name=name, category=int(category), failed=failed, forked=forked, outermost=outermost
        )

    return make


def around(
    host: "Host", what: str, before: Callable[..., Any], after: Callable[[Any, Any, Any], Any] | None = None
) -> Closure:
    """Return what makes the replacement of a function around whose calls functions of ours are called.

    Args:
        host: that records.
        what: to name where one of them fails.
        before: called with the arguments; what it returns is given to `after`.
        after: called with that, the result and the exception that ended the call, unless `before` returned None.
    """
    failed = host.guard(what)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        return host.recorder.wrap(original, before=before, after=after or _nothing, failed=failed, forked=forked)

    return make


def _nothing(state: Any, result: Any, reason: Any) -> None:
    """Do nothing after a call."""


def begin(recorder: Recorder, name: int, category: int, argument: int = 0) -> int:
    """Begin a span and return its token; in a fork child that does not record yet, have it record first."""
    token = recorder.begin(name, category, argument)
    if not token and forked:
        forked[0].reopen()
        token = recorder.begin(name, category, argument)
    return token


_Label = TypeVar("_Label")


class Labels(Generic[_Label]):
    """Keep what is worth knowing about objects that are hooked often, for as long as each object lives.

    Nothing is written to the object itself: it may be pickled, copied or compared.

    Args:
        describe: returns what to keep for an object; its errors are not caught here.
    """

    def __init__(self, describe: Callable[[Any], _Label]) -> None:
        self._describe = describe
        self._references: dict[int, weakref.ref[Any]] = {}
        #: id(object) -> its label
        self.known: dict[int, _Label] = {}

    def add(self, item: Any) -> _Label:
        """Describe `item` and keep the answer."""
        return self.put(item, self._describe(item))

    def put(self, item: Any, label: _Label) -> _Label:
        """Keep `label` for `item`."""
        key = id(item)
        self._references[key] = weakref.ref(item, lambda _: self._forget(key))
        self.known[key] = label
        return label

    def clear(self) -> None:
        """Forget everything."""
        self.known.clear()
        self._references.clear()

    def _forget(self, key: int) -> None:
        self.known.pop(key, None)
        self._references.pop(key, None)


def keep_signature(original: Callable[..., Any], replacement: Callable[..., Any]) -> Callable[..., Any]:
    """Make `replacement` pass for `original`, `__wrapped__` included: MindSpore's parser follows it to the source."""
    return functools.wraps(original)(replacement)
