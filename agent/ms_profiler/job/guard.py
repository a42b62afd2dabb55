"""Keep our own errors from the job."""

import signal
import sys
from collections.abc import Callable
from types import WrapperDescriptorType
from typing import Any


class Guard:
    """Context manager that notes an error of ours and suppresses it; exceptions of the job's signal handlers pass.

    It is a class, because a generator of contextlib takes 2.5 us to enter and leave, five times as much.

    Args:
        failed: called with the description and the error.
        what: description of the block.
    """

    __slots__ = ("_failed", "_what")

    def __init__(self, failed: Callable[[str, BaseException], None], what: str) -> None:
        self._failed = failed
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, reason: BaseException | None, _: Any) -> bool:
        if reason is None or is_of_the_job(reason):
            return False
        self._failed(self._what, reason)
        return True

    def __call__(self, reason: BaseException) -> None:
        """Note an error of ours; raise an exception of the job again."""
        if is_of_the_job(reason):
            raise reason
        self._failed(self._what, reason)


class Late:
    """Put off signals of the job while ms-profiler does its last work in it.

    Args:
        put_off: `Recorder.put_off_signals`.
    """

    __slots__ = ("_put_off",)

    def __init__(self, put_off: Callable[[bool], None]) -> None:
        self._put_off = put_off

    def __enter__(self) -> None:
        self._put_off(True)

    def __exit__(self, *_: object) -> None:
        self._put_off(False)


def is_of_the_job(reason: BaseException) -> bool:
    """Return whether an exception from a function of ours was raised by the job.

    Python calls the job's signal handlers between any two instructions, also between ours. An exception of such a
    handler, for example a timeout by SIGALRM, is meant for the job.
    """
    if not isinstance(reason, Exception):
        return True
    handlers = set()
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        if callable(handler):
            function = getattr(handler, "__func__", handler)
            handlers.add(getattr(function, "__code__", None) or getattr(type(handler).__call__, "__code__", None))
    trace = reason.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


def words(reason: BaseException) -> str:
    """Return the name of an exception and its text, without calling code of the script for it."""
    kind = type(reason)
    known = kind.__module__.partition(".")[0] in (*sys.stdlib_module_names, "ms_profiler")
    if known or isinstance(kind.__str__, WrapperDescriptorType):
        return f"{kind.__name__}: {reason}"
    return kind.__name__
