"""Keep errors of a script's calls out of the job. This is for scripts that use the profiler under MindSpore's names.

Each public method of MindSpore 2.10's own profiler logs an `Exception` and returns None, so the job continues.
"""

import functools
import os
import sys
import warnings
from collections.abc import Callable
from inspect import getattr_static
from types import FrameType, FunctionType, TracebackType
from typing import Any, ClassVar, TypeVar

from ms_profiler import log
from ms_profiler.errors import AnalysisError, MsProfilerError
from ms_profiler.job import guard

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
#: methods that Python or the constructor calls for the script -> what the script sees of them
_INNER = {"_begin": "start()", "__exit__": "the end of a with statement", "__del__": "stop()"}
_Kind = TypeVar("_Kind", bound=type)


class Forgiven:
    """Context manager that prints a line about an error and suppresses it; an error of every step has one line.

    An exception that is no `Exception` passes, and so does an exception of the job's signal handlers.

    Args:
        what: the part of the script's profiler that runs inside, for the line.
    """

    _seen: ClassVar[set[tuple[str, str]]] = set()

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, reason: BaseException | None, _: TracebackType | None) -> bool:
        if reason is None or guard.is_of_the_job(reason):
            return False
        if isinstance(reason, AnalysisError):
            pass  # the analysis itself has printed the reason
        elif isinstance(reason, MsProfilerError):
            self._say(str(reason), str(reason))
        else:
            place = _place(reason.__traceback__)
            found = guard.words(reason).rstrip(".") + place
            line = f"{self._what} of the script's profiler failed: {found}. The job goes on. Correct the script."
            self._say(line, type(reason).__name__ + place)
        return True

    def _say(self, line: str, cause: str) -> None:
        if (self._what, cause) not in self._seen:
            self._seen.add((self._what, cause))
            log.line(line)


def forgiving(call: Callable[..., Any], what: str = "") -> Callable[..., Any]:
    """Return a function that does the same, but prints a line instead of raising an `Exception`, and returns None.

    Args:
        call: the function.
        what: the name of the function in the line; by default its name in Python.
    """
    name = what or f"{call.__name__}()"

    @functools.wraps(call)
    def attempt(*args: Any, **kwargs: Any) -> Any:
        with Forgiven(name):
            return call(*args, **kwargs)
        return None

    return attempt


def forgiving_methods(kind: _Kind) -> _Kind:
    """Make every public method of a class forgiving, inherited ones included; return the class."""
    for name in dir(kind):
        if name.startswith("_") and name not in _INNER:
            continue
        method = getattr_static(kind, name)
        if isinstance(method, FunctionType):
            setattr(kind, name, forgiving(method, _INNER.get(name, "")))
        elif isinstance(method, (classmethod, staticmethod)):
            setattr(kind, name, type(method)(forgiving(method.__func__)))
    return kind


def warn(message: str, forgives: bool = False, category: type[Warning] = UserWarning) -> None:
    """Warn about the line of the script that called ms-profiler.

    Args:
        message: the text of the warning.
        forgives: whether to print a line instead where the script makes errors out of warnings.
        category: class of the warning.
    """
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    try:
        warnings.warn(message, category, stacklevel=level)
    except Exception as reason:
        if not forgives or guard.is_of_the_job(reason):
            raise
        log.line(message)


def _place(trace: TracebackType | None) -> str:
    """Return the file and line that raised an exception, if they are not ms-profiler's own."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or (path := trace.tb_frame.f_code.co_filename).startswith(_PACKAGE):
        return ""
    return f" ({os.path.basename(path)}:{trace.tb_lineno})"
