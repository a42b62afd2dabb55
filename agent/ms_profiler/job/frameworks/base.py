"""The base of the plugins for PyTorch and MindSpore: wraps functions of the framework, and can restore the originals.

A plugin is a folder with one file for each concern, for example collectives. Each file has a function `targets(host)`,
which returns a list of `Target`: the functions to wrap. The installed version of the framework may lack a target. Then
`run_info.json` says so, and the other targets are wrapped.
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

from ms_profiler.job.guard import pass_on, words
from ms_profiler.job.recorder import Recorder, shield
from ms_profiler.job.recorder.python_wrapper import RAISED as RAISED, flags_of as flags_of

if TYPE_CHECKING:
    from ms_profiler.job.host import Host
    from ms_profiler.job.sources import Sources

#: A function that is called in place of another one: wrapper(wrapped, instance, args, kwargs), as in wrapt
Wrapper = Callable[[Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]], Any]


@dataclass(frozen=True)
class Target:
    """One callable to wrap.

    Args:
        module: the module that defines the callable.
        path: dotted name of the callable in the module, for example "Model.train".
        closure: a decorator: it takes the original callable and returns the replacement. `recorded` returns one.
        wrapper: without `closure`, a function that is called in place of each call. It adds a frame to the stack. Use
            it only where this frame does no harm.
        copies: whether to also replace the original in other modules of its package, which imported it by this name.
        group: a name in `run_info.json` that many targets share; empty to use the target's own name.
    """

    module: str
    path: str
    wrapper: Wrapper | None = None
    closure: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None
    copies: bool = False
    group: str = ""

    @property
    def name(self) -> str:
        """Return the name of the target in `run_info.json`: its group if it has one, else its full dotted name."""
        return self.group or f"{self.module}.{self.path}"


class MissingError(Exception):
    """The target is not in this version of the framework."""


class Plugin:
    """Wrap functions of one framework, note for each of them whether that succeeded, and restore the originals.

    Args:
        framework: name of the framework's top-level module.
        concerns: functions that return the targets, that is the functions of the framework to wrap.
    """

    def __init__(self, framework: str, concerns: Iterable[Callable[["Host"], list[Target]]]) -> None:
        self.framework = framework
        self._concerns = tuple(concerns)
        self._undo: list[tuple[Callable[[], Any], str, Any]] = []
        self._sources: list[tuple[Sources, list[Callable[..., Any]]]] = []
        #: for each function to wrap: its full name -> "applied", "missing: why" or "failed: why"
        self.state: dict[str, str] = {}

    def apply(self, host: "Host") -> None:
        """Wrap every target that this version of the framework has; never raise."""
        self.state.clear()
        self._apply_quickly(host, self._concerns)

    def add(self, host: "Host", concern: Callable[["Host"], list[Target]]) -> None:
        """Wrap the targets of one more concern; never raise."""
        self._apply_quickly(host, (concern,))

    def redirect(self, host: "Host") -> None:
        """Replace the framework's own profiler, if it has one, by our classes of the same interface."""

    def _apply_quickly(self, host: "Host", concerns: Iterable[Callable[["Host"], list[Target]]]) -> None:
        # the garbage collector would free nothing here, and take 100 ms for a framework's many objects
        collecting = gc.isenabled()
        gc.disable()
        try:
            self._apply_all(host, concerns)
        finally:
            if collecting:
                gc.enable()

    def _apply_all(self, host: "Host", concerns: Iterable[Callable[["Host"], list[Target]]]) -> None:
        copies: dict[str, list[tuple[Any, Any]]] = {}
        before, packages = host.sources.calls, set()
        for concern in concerns:
            for target in self._declared(concern, host):
                try:
                    original, replacement = self._apply(target)
                except MissingError as reason:
                    self.state.setdefault(target.name, f"missing: {reason}")
                except BaseException as reason:  # noqa: BLE001 - the other hooks are applied all the same
                    self._failed(host, f"hook {target.name}", target.name, reason)
                else:
                    if not self.state.get(target.name, "").startswith("failed"):
                        self.state[target.name] = "applied"
                    if target.copies:
                        copies.setdefault(target.path, []).append((original, replacement))
                        packages.add(target.module.partition(".")[0])
        if copies:
            self._replace_copies(copies, packages)
        self._sources.append((host.sources, [call for call in host.sources.calls if call not in before]))

    @property
    def left_running(self) -> str:
        """Return why ms-profiler let the framework's own profiler run; empty if it does not run."""
        return ""

    @property
    def forwarded_options(self) -> tuple[str, ...]:
        """Return the names of the options that the framework's own profiler serves while it is left running."""
        return ()

    def describe(self) -> dict[str, str]:
        """Return the framework's mode and device, which are known only at the end of the run."""
        return {}

    def undo(self) -> None:
        """Restore every original function, and remove the functions that the plugin registered with the session."""
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
        except BaseException as reason:  # noqa: BLE001 - the other concerns are applied all the same
            self._failed(host, f"hooks of {concern.__module__}", concern.__module__, reason)
            return []

    def _failed(self, host: "Host", what: str, name: str, reason: BaseException) -> None:
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
        # The reference to the module is weak. A strong one would keep the module alive at the end of the process, and
        # Python would set the module's names to None. MindSpore's __del__ methods use these names, and would fail.
        self._undo.append((weakref.ref(owner), attribute, vars(owner).get(attribute, _ABSENT)))
        setattr(owner, attribute, value)

    def _replace_copies(self, copies: dict[str, list[tuple[Any, Any]]], packages: set[str]) -> None:
        """Replace wrapped functions also in other modules of their packages, which imported them by their names."""
        # compare only values with the name of a wrapped function: 2 ms for MindSpore's thousand modules, not 18 ms
        for name, module in list(sys.modules.items()):
            if module is None or name.partition(".")[0] not in packages:
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

    The replacement of a function is a function, because the job may pickle it by its name; `wrapt` does not allow that.

    Args:
        original: any callable.
        wrapper: called in place of each call.
        method: whether `original` is a method, so that the first argument of a call is the instance.
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
    """Return the first of these module names that is loaded, else the first: versions use different names."""
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
    # `vars` returns static and class methods as they are, which `undo` needs later. `getattr` would bind them.
    original = vars(owner).get(attribute, _ABSENT)
    if original is _ABSENT and not (isinstance(owner, type) and _is_of_metaclass(owner, attribute)):
        original = getattr(owner, attribute, _ABSENT)
    if original is _ABSENT:
        raise MissingError(f"{'.'.join([target.module, *parents])} has no {attribute}")
    return owner, attribute, original


def _is_of_metaclass(owner: type, attribute: str) -> bool:
    """Return whether only the metaclass can define an attribute, because neither the class nor its bases define it."""
    return not any(attribute in vars(kind) for kind in owner.__mro__)


class Inside(threading.local):
    """Note whether this thread is inside a call of some kind, because nested calls of this kind are not recorded."""

    value = False


#: The session, while this process is a fork child that has not recorded yet: the first hook then calls `Host.reopen`,
#: which opens files of the child's own. Empty in any other process.
forked: list["Host"] = []


Closure = Callable[[Callable[..., Any]], Callable[..., Any]]


#: kinds of nested calls; of each kind, only the outermost call of a thread is recorded
MODULES, WAITS, CELLS = 1, 2, 3


def recorded(host: "Host", label: str, category: int, outermost: int = 0, **settings: Any) -> Closure:
    """Return a decorator that records each call of a function as a span with a fixed name.

    Args:
        host: the session that records.
        label: name of the spans.
        category: the category of the spans.
        outermost: kind of the calls: `MODULES`, `WAITS` or `CELLS`. Of nested calls of one kind, only the outermost is
            recorded. 0 records every call.
        settings: more arguments of `Recorder.wrap`.
    """
    recorder = host.recorder
    settings |= {"name": recorder.intern(label), "category": int(category), "outermost": outermost}
    settings |= {"failed": host.guard(f"recording {label}"), "forked": forked}

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        return recorder.wrap(original, **settings)

    return make


def around(
    host: "Host", what: str, before: Callable[..., Any], after: Callable[..., Any] | None = None, **settings: Any
) -> Closure:
    """Return a decorator that calls one function of ours before each call of a function, and another one after it.

    Args:
        host: the session that records.
        what: description for the message when one of our functions fails.
        before: called with the arguments of the call; its result goes to `after`.
        after: called with the result of `before`, the result of the call, and the exception of the call. If `before`
            returns None, `after` is not called.
        settings: more arguments of `Recorder.wrap`.
    """
    failed = host.guard(what)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        settings.update(before=before, after=after or (lambda *_: None), failed=failed, forked=forked)
        return host.recorder.wrap(original, **settings)

    return make


def following(host: "Host", what: str, note: Callable[[Any], Any]) -> Closure:
    """Return a decorator that calls a function of ours after each call of a method that raised no exception.

    Args:
        host: the session that records.
        what: description for the message when our function fails.
        note: our function, called with the instance.
    """

    def before(instance: Any, *_: Any, **__: Any) -> Any:
        return instance

    def after(instance: Any, result: Any, reason: BaseException | None) -> None:
        if reason is None:
            note(instance)

    return around(host, what, before, after)


def begin(recorder: Recorder, name: int, category: int, argument: int = 0) -> int:
    """Begin a span and return its token; a fork child that has not recorded yet first opens files of its own."""
    token = recorder.begin(name, category, argument)
    if not token and forked:
        forked[0].reopen()
        token = recorder.begin(name, category, argument)
    return token


_Label = TypeVar("_Label")


#: The store accepts at most NAMES_LEAST + 2 * (number of living modules) names of modules. A name takes 200 bytes.
NAMES_LEAST = 4096
#: name that a module gets when the store accepts no further names, not even the name of the module's class
UNNAMED = "(one of many modules)"


class Labels(Generic[_Label]):
    """Cache a description, called label, of each object whose calls are recorded. A label lives as long as its object.

    The labels are not stored in the objects themselves, because the job may pickle, copy or compare its objects.

    Args:
        describe: a function that returns the label of an object; its exceptions are not caught here.
    """

    def __init__(self, describe: Callable[[Any], _Label]) -> None:
        self._describe = describe
        self._references: dict[int, weakref.KeyedRef[int, Any]] = {}
        self._gone = shield(lambda reference: self._forget(reference.key), pass_on)
        #: id(object) -> its label
        self.known: dict[int, _Label] = {}

    def add(self, item: Any) -> _Label:
        """Describe `item`, and store the result as its label."""
        return self.put(item, self._describe(item))

    def put(self, item: Any, label: _Label) -> _Label:
        """Store `label` as the label of `item`."""
        self._references[id(item)] = weakref.KeyedRef(item, self._gone, id(item))
        self.known[id(item)] = label
        return label

    def name(self, recorder: Recorder, text: str) -> int:
        """Store the name of an object and return the id of the name; 0 if too many names are stored already.

        The number is limited, because a stored name is never removed, and a job may make many short-lived modules.
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
    """Copy the metadata of `original` to `replacement`; set `__wrapped__`, with which MindSpore finds the source."""
    return functools.wraps(original)(replacement)
