"""Wrap functions to record their calls, without the C extension; each call gets one more Python frame.

The extension's class `Wrapper` does the same without a frame.
"""

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.store.format import Flag

if TYPE_CHECKING:
    from ms_profiler.job.recorder.contract import Recorder
    from ms_profiler.job.recorder.shortcut import Shortcut

RAISED = int(Flag.RAISED)


class _Depths(threading.local):
    def __init__(self) -> None:
        #: kind of nested calls -> depth of this thread
        self.of = [0] * 4


_depths = _Depths()


def nest(kind: int, levels: int) -> int:
    """Add `levels` to this thread's depth of nested calls of a kind, and return the new depth."""
    _depths.of[kind] += levels
    return _depths.of[kind]


# These functions read `__name__` and `__flags__` of a class without calling code of the script. The usual look-up may
# call such code, because a metaclass can override it.
_name, _flags = (type.__dict__[name].__get__ for name in ("__name__", "__flags__"))
#: Py_TPFLAGS_HEAPTYPE: a class that was made at run time
_MADE = 1 << 9


def flags_of(reason: BaseException) -> int:
    """Return the flags of a span that ended with an exception: RAISED, or 0 if the exception is no failure.

    Two kinds of exceptions are no failures: the end of an iteration, and the exception by which PyTorch stops a
    recomputation early.
    """
    stops = issubclass(type(reason), StopIteration) or _name(type(reason)) == "_StopRecomputationError"
    return 0 if stops else RAISED


def named_as(wrapper: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a wrapper the names and attributes of the wrapped function, and return it.

    If the class of the function may be one of the script's, the wrapper gets no names and attributes: reading them
    might call a `__getattr__` of the script.
    """
    kind = type(function)
    if _flags(kind) & _MADE and kind is not type(wrapper):
        return wrapper
    return functools.update_wrapper(wrapper, function)


def wrap(
    recorder: "Recorder",
    function: Callable[..., Any],
    *,
    name: int = 0,
    category: int = 0,
    before: Callable[..., Any] | None = None,
    after: Callable[[Any, Any, Any], Any] | None = None,
    labels: dict[int, Any] | None = None,
    describe: Callable[[Any], Any] | None = None,
    failed: Callable[[BaseException], Any],
    forked: list[Any],
    outermost: int = 0,
    idle: bool = False,
    shortcut: "Shortcut | None" = None,
    rests: bool = False,
) -> Callable[..., Any]:
    """Return a replacement of a function that records each call and calls the function, as `Recorder.wrap`.

    `idle`, `shortcut` and `rests` only save time, so this function ignores them.
    """

    named: list[Any] = []

    def label_of(args: tuple[Any, ...]) -> Any:
        if describe is None or not args:
            return None if before is not None else (name, category, 0)
        known = labels.get(id(args[0])) if labels is not None else named[0] if named else None
        if known is not None:
            return known
        try:
            known = describe(args[0])
        except BaseException as reason:  # noqa: BLE001 - an exception of the job is raised again
            failed(reason)
            return 0, category, 0
        if labels is None:
            named.append(known)
        return known

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not outermost:
            return function(*args, **kwargs)
        nest(outermost, 1)
        try:
            return function(*args, **kwargs)
        finally:
            nest(outermost, -1)

    def record(label: tuple[int, int, int], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        token = recorder.begin(*label)
        if not token and forked:
            forked[0].reopen()
            token = recorder.begin(*label)
        try:
            result = run(args, kwargs)
        except BaseException as reason:
            recorder.end(token, flags_of(reason))
            raise
        recorder.end(token)
        return result

    def call_after(state: Any, result: Any, reason: BaseException | None) -> None:
        if state is not None and after is not None:
            try:
                after(state, result, reason)
            except BaseException as error:  # noqa: BLE001 - an exception of the job is raised again
                failed(error)

    def call(*args: Any, **kwargs: Any) -> Any:
        inner = bool(outermost and _depths.of[outermost])
        if inner and labels is None:
            return function(*args, **kwargs)
        label = None if outermost and not inner and before is not None else label_of(args)
        if isinstance(label, tuple) and len(label) == 3:
            return record(label, args, kwargs)
        state = None
        try:
            state = before(*args, **kwargs) if before is not None else None
        except BaseException as reason:  # noqa: BLE001 - an exception of the job is raised again
            failed(reason)
        try:
            result = run(args, kwargs)
        except BaseException as reason:
            call_after(state, None, reason)
            raise
        call_after(state, result, None)
        return result

    return named_as(call, function)
