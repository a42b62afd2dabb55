"""The extension's `Wrapper` as a plain function, which costs a Python frame a call."""

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.store.format import Flag

if TYPE_CHECKING:
    from ms_profiler.job.recorder.contract import Recorder

RAISED = int(Flag.RAISED)


class _Depths(threading.local):
    def __init__(self) -> None:
        #: how deep the thread is in calls of which only the outermost counts, by kind
        self.of = [0] * 4


_depths = _Depths()


def nest(kind: int, levels: int) -> int:
    """See `Recorder.nest`."""
    _depths.of[kind] += levels
    return _depths.of[kind]


_name = type.__dict__["__name__"].__get__  # a metaclass of the script may override the look-up


def flags_of(reason: BaseException) -> int:
    """Return the flags of a span that an exception ended; not all exceptions are failures.

    The end of an iteration is no failure, and neither is the exception by which PyTorch stops a complete recomputation.
    """
    stops = issubclass(type(reason), StopIteration) or _name(type(reason)) == "_StopRecomputationError"
    return 0 if stops else RAISED


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
) -> Callable[..., Any]:
    """See `Recorder.wrap`."""

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

    def tell(state: Any, result: Any, reason: BaseException | None) -> None:
        if state is not None and after is not None:
            try:
                after(state, result, reason)
            except BaseException as error:  # noqa: BLE001 - as above
                failed(error)

    @functools.wraps(function)
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
        except BaseException as reason:  # noqa: BLE001 - as above
            failed(reason)
        try:
            result = run(args, kwargs)
        except BaseException as reason:
            tell(state, None, reason)
            raise
        tell(state, result, None)
        return result

    return call
