"""Call functions of ours when the job imports a module; this hook neither imports nor changes the module.

Our finder is the first in `sys.meta_path`. It gets the module's loader from the finders behind it and replaces the
loader's method `exec_module`. The replacement removes itself before the module executes. So the module has the same
loader, spec and source as without ms-profiler. To keep the start of the interpreter short, this file imports only
modules that Python has loaded before.
"""

import os
import sys
from _thread import _local

from ms_profiler import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType
    from typing import Any

    Before = Callable[[str], object]
    After = Callable[[str, ModuleType, int, int], object]

#: Environment variable for tests: with the value 1, an exception in ms-profiler is raised in the job, not suppressed.
RAISE = "MS_PROFILER_RAISE"


class Watch:
    """The functions of ours to call before and after one module executes, and when its execution fails."""

    __slots__ = ("after", "before", "failed")

    def __init__(self, before: "Before | None", after: "After | None", failed: "Before | None") -> None:
        self.before, self.after, self.failed = before, after, failed


_watches: "dict[str, list[Watch]]" = {}
_searching = _local()


def watch(
    name: str, before: "Before | None" = None, after: "After | None" = None, failed: "Before | None" = None
) -> None:
    """Call functions of ours before and after every execution of a module, reloads included.

    If one of these functions fails, ms-profiler prints one line, and the import succeeds.

    Args:
        name: full name of the module, which may be a submodule.
        before: called with the name right before the module executes.
        after: called with the name, the module, and the begin and end of its execution (CLOCK_MONOTONIC_RAW, ns). If
            the job has imported the module already, `watch` itself calls `after`, with 0 for both times.
        failed: called with the name when the execution of the module has ended with an exception.
    """
    _watches.setdefault(name, []).append(Watch(before, after, failed))
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    module = sys.modules.get(name)
    if module is not None and after and not getattr(getattr(module, "__spec__", None), "_initializing", False):
        call(after, name, module, 0, 0)


def unwatch(name: str) -> None:
    """Forget the functions to call at imports of a module."""
    _watches.pop(name, None)


def clear() -> None:
    """Forget the functions to call at imports of all modules, and remove our finder from `sys.meta_path`."""
    _watches.clear()
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def call(callback: "Callable[..., object]", *args: "Any") -> None:
    """Call a function of ours during an import of the job; if it fails, print one line."""
    try:
        callback(*args)
    except BaseException as reason:
        if os.environ.get(RAISE) == "1" or not _reported(str(args[0]), reason):
            raise


def _reported(name: str, reason: BaseException) -> bool:
    """Print a line about an error at an import, and return True; if the error is meant for the job, return False."""
    try:
        from ms_profiler import log
        from ms_profiler.job import guard

        if guard.is_of_the_job(reason):
            return False
        log.line(f"at the import of {name}: {guard.words(reason)}; the job continues without it")
    except BaseException:  # noqa: BLE001 - a broken installation, or an audit hook of the job that refuses our imports
        return not isinstance(reason, KeyboardInterrupt)
    return True


def _like_importlib(code: "CodeType") -> "CodeType":
    """Hide a function of ours from tracebacks, as CPython hides importlib.

    When an import fails, CPython removes consecutive frames with importlib's file name from the traceback. It does so
    if the last of these frames has the function name below (remove_importlib_frames in Python/import.c). So with both
    names, the job prints the same traceback as without ms-profiler.
    """
    return code.replace(co_filename="<frozen importlib._bootstrap>", co_name="_call_with_frames_removed")


class Finder:
    """A finder for `sys.meta_path`: asks the other finders for a watched module, and changes the module's loader."""

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        """Return the spec of a watched module from the other finders; None for a module that is not watched."""
        if name not in _watches:
            return None
        # Another finder may call all finders, also this one: the finder of wrapt does. So detect the nested search.
        if name in _searching.__dict__:
            return None
        _searching.__dict__[name] = True
        try:
            for finder in tuple(sys.meta_path):
                find = None if finder is self else getattr(finder, "find_spec", None)
                spec: ModuleSpec | None = find(name, path, target) if find else None
                if spec is not None:
                    call(_watch_loader, name, spec)
                    return spec
            return None
        finally:
            del _searching.__dict__[name]

    find_spec.__code__ = _like_importlib(find_spec.__code__)


_finder = Finder()


def _watch_loader(name: str, spec: "ModuleSpec") -> None:
    """Make the loader of a module call our functions at the module's next execution, if the loader can be changed.

    The replacement of the method `exec_module` is an attribute of the loader object. The class of the loader stays as
    it is, because importlib.resources, pkgutil and inspect check the class. All modules of a zip archive share one
    loader. So the replacement first checks by its spec that a module is the watched one.
    """
    loader = spec.loader
    execute = getattr(loader, "exec_module", None)
    attributes = getattr(loader, "__dict__", None)
    if execute is None or not isinstance(attributes, dict):  # the loader of a namespace package or a built-in module
        return
    previous = attributes.get("exec_module")

    def exec_module(module: "ModuleType") -> None:
        if getattr(module, "__spec__", None) is not spec:
            execute(module)
            return
        if attributes.get("exec_module") is exec_module:
            if previous is None:
                del attributes["exec_module"]
            else:
                attributes["exec_module"] = previous
        watches = tuple(_watches.get(name, ()))
        for each in watches:
            if each.before:
                call(each.before, name)
        start = clock.raw_ns()
        try:
            execute(module)
        except BaseException:
            for each in watches:
                if each.failed:
                    call(each.failed, name)
            raise
        end = clock.raw_ns()
        module = sys.modules.get(name, module)  # some modules put another object in their place
        for each in watches:
            if each.after:
                call(each.after, name, module, start, end)

    exec_module.__code__ = _like_importlib(exec_module.__code__)
    attributes["exec_module"] = exec_module
