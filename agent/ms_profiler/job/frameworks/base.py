"""The base of framework plugins: a plugin declares its targets, and this module wraps them and can undo that.

A plugin is a folder with one file per concern; each offers `targets(host)`, a list of `Target`. A target that this
version or build of the framework lacks is noted in the run's record, and nothing else.
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

from ms_profiler.job.guard import words
from ms_profiler.job.recorder.contract import Recorder
from ms_profiler.job.recorder.python_wrapper import RAISED as RAISED, flags_of as flags_of

if TYPE_CHECKING:
    from ms_profiler.job.host import Host
    from ms_profiler.job.sources import Sources

#: A function called in place of each call: wrapper(wrapped, instance, args, kwargs), as in wrapt
Wrapper = Callable[[Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]], Any]


@dataclass(frozen=True)
class Target:
    """One callable to wrap.

    Args:
        module: the module that defines it.
        path: its dotted name in the module, "Model.train".
        closure: a function from the original to its replacement: `recorded`, `around`, or one that keeps `__wrapped__`.
        wrapper: called in place of each call, with a frame of ours; only where a frame is harmless.
        copies: whether to replace the copies that other modules of the framework imported under the same name as well.
        group: the name in the run's record, where one declaration makes many targets; by default the target's own name.
    """

    module: str
    path: str
    wrapper: Wrapper | None = None
    closure: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None
    copies: bool = False
    group: str = ""

    @property
    def name(self) -> str:
        """Return the name under which the run's record lists the target: the group's, or its full dotted name."""
        return self.group or f"{self.module}.{self.path}"


class MissingError(Exception):
    """The target is not in this version of the framework."""


class Plugin:
    """Wrap the targets of one framework, note the state of each, and undo the wrapping.

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
        """Wrap every target that exists; never raise."""
        self.state.clear()
        self._apply_quickly(host, self._concerns)

    def add(self, host: "Host", concern: Callable[["Host"], list[Target]]) -> None:
        """Wrap the targets of one further concern; never raise."""
        self._apply_quickly(host, (concern,))

    def redirect(self, host: "Host") -> None:
        """Replace the framework's own profiler, if it has one, by our classes of the same interface."""

    def _apply_quickly(self, host: "Host", concerns: Iterable[Callable[["Host"], list[Target]]]) -> None:
        # the new objects stay; a garbage collection over all of a framework's objects would take 100 ms
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
                    self._failed(host, f"hook {target.name}", target.name, reason)
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
            self._failed(host, f"hooks of {concern.__module__}", concern.__module__, reason)
            return []

    def _failed(self, host: "Host", what: str, name: str, reason: Exception) -> None:
        host.guard(what)(reason)
        self.state[name] = f"failed: {words(reason)}"

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
        """Replace the copies of targets that modules of the framework imported before the hooks were applied.

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
    """Return a callable that calls `wrapper` in place of `original`.

    A function is replaced by a function, which can be pickled by its name; a wrapt object cannot.

    Args:
        original: any callable.
        wrapper: called in place of each call.
        method: whether the first argument of a call is the instance.
    """
    if not isinstance(original, FunctionType):
        import wrapt  # takes 40 ms, so it is imported only once a framework is loaded

        return wrapt.FunctionWrapper(original, wrapper)
    if method:

        def call_method(self: Any, *args: Any, **kwargs: Any) -> Any:
            return wrapper(original.__get__(self), self, args, kwargs)

        return keep_signature(original, call_method)

    def call(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, None, args, kwargs)

    return keep_signature(original, call)


def loaded(*modules: str) -> str:
    """Return the first of these modules that is loaded, or else the first: the place depends on the framework's
    version."""
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
    # vars first: getattr binds static and class methods, and the unbound object has to be restored
    original = vars(owner).get(attribute, _ABSENT)
    if original is _ABSENT and not (isinstance(owner, type) and _is_of_metaclass(owner, attribute)):
        original = getattr(owner, attribute, _ABSENT)
    if original is _ABSENT:
        raise MissingError(f"{'.'.join([target.module, *parents])} has no {attribute}")
    return owner, attribute, original


def _is_of_metaclass(owner: type, attribute: str) -> bool:
    """Return whether a class has an attribute only as an instance: every class can be called, its objects cannot."""
    return not any(attribute in vars(kind) for kind in owner.__mro__)


class Inside(threading.local):
    """State of a thread: whether it is inside of a call of which only the outermost is recorded."""

    value = False


#: In a fork child, the session that has to be reopened before the child can record; else empty.
forked: list["Host"] = []


Closure = Callable[[Callable[..., Any]], Callable[..., Any]]


#: kinds of calls of which only the outermost of a thread counts: modules, waits for a device, cells
MODULES, WAITS, CELLS = 1, 2, 3


def recorded(host: "Host", label: str, category: int, outermost: int = 0) -> Closure:
    """Return a function that replaces a callable by one whose calls are spans with a fixed name.

    Args:
        host: the session that records.
        label: name of the spans.
        category: the category of the spans.
        outermost: a kind of calls of which only the outermost is recorded; 0 for all calls.
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
    """Return a function that replaces a callable by one with functions of ours before and after each call.

    Args:
        host: the session that records.
        what: description for the message when one of them fails.
        before: called with the arguments; its result is passed to `after`.
        after: called with that result, the call's result and its exception, unless `before` returned None.
    """
    failed = host.guard(what)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        return host.recorder.wrap(original, before=before, after=after or _nothing, failed=failed, forked=forked)

    return make


def following(host: "Host", what: str, note: Callable[[Any], Any]) -> Closure:
    """Return a function that replaces a method by one with a function of ours after each call that returned.

    Args:
        host: the session that records.
        what: description for the message when the function fails.
        note: called with the instance.
    """

    def before(instance: Any, *_: Any, **__: Any) -> Any:
        return instance

    def after(instance: Any, result: Any, reason: BaseException | None) -> None:
        if reason is None:
            note(instance)

    return around(host, what, before, after)


def _nothing(state: Any, result: Any, reason: Any) -> None:
    """Do nothing after a call."""


def begin(recorder: Recorder, name: int, category: int, argument: int = 0) -> int:
    """Begin a span and return its token. A fork child that does not record yet begins to record first."""
    token = recorder.begin(name, category, argument)
    if not token and forked:
        forked[0].reopen()
        token = recorder.begin(name, category, argument)
    return token


_Label = TypeVar("_Label")


#: largest number of names of modules that no longer exist: each takes 200 bytes of the job's memory
NAMES_LEAST = 4096
#: name of a module when there is no room even for the name of its class
UNNAMED = "(one of many modules)"


class Labels(Generic[_Label]):
    """Cache facts about objects that are hooked often, for the life of each object.

    Nothing is written to the object itself: it may be pickled, copied or compared.

    Args:
        describe: returns the facts about an object; its errors are not caught here.
    """

    def __init__(self, describe: Callable[[Any], _Label]) -> None:
        self._describe = describe
        self._references: dict[int, weakref.ref[Any]] = {}
        #: id(object) -> its label
        self.known: dict[int, _Label] = {}

    def add(self, item: Any) -> _Label:
        """Describe `item`, and store the result as its label."""
        return self.put(item, self._describe(item))

    def put(self, item: Any, label: _Label) -> _Label:
        """Store `label` as the label of `item`."""
        key = id(item)
        self._references[key] = weakref.ref(item, lambda _: self._forget(key))
        self.known[key] = label
        return label

    def name(self, recorder: Recorder, text: str) -> int:
        """Return the id of the name of one of these objects; 0 if far more names than objects exist by now.

        A job may make many short-lived modules, each with a name of its own; a name stays when its module is gone.
        """
        return recorder.intern_one_of(text, NAMES_LEAST + 2 * len(self.known))

    def clear(self) -> None:
        """Forget all labels."""
        self.known.clear()
        self._references.clear()

    def _forget(self, key: int) -> None:
        self.known.pop(key, None)
        self._references.pop(key, None)


def keep_signature(original: Callable[..., Any], replacement: Callable[..., Any]) -> Callable[..., Any]:
    """Make `replacement` pass for `original`, `__wrapped__` included: MindSpore's parser follows it to the source."""
    return functools.wraps(original)(replacement)
