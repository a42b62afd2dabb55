"""Catch errors of ms-profiler itself, so that they do not reach the job."""

import functools
import gc
import os
import signal
import sys
from collections.abc import Callable
from inspect import CO_VARARGS
from opcode import opmap
from types import CodeType, FrameType, FunctionType, MethodType, WrapperDescriptorType
from typing import Any

from ms_profiler import paths

#: Environment variable for tests: with the value 1, an error of ms-profiler is raised in the job.
RAISE = "MS_PROFILER_RAISE"
_PACKAGE = paths.dirname(paths.dirname(__file__)) + os.sep
#: Packages with C functions that ms-profiler calls. Their exceptions count as errors of ms-profiler.
_CALLED = (
    "ms_profiler",
    "torch",
    "torch_npu",
    "mindspore",
    "numpy",
    "cffi",
    "_cffi_backend",
    "orjson",
    "psutil",
    "wrapt",
)
#: events of trace and profile functions: https://docs.python.org/3/library/sys.html#sys.settrace
_EVENTS = frozenset({"call", "line", "return", "exception", "opcode", "c_call", "c_return", "c_exception"})
#: types of an exception's arguments that Python turns into text without calling code of the script
_PLAIN = (str, int, float, bytes, bool, type(None))
#: the instruction of a statement `raise`
_RAISES = opmap["RAISE_VARARGS"]


class Guard:
    """Context manager that notes and suppresses an error of ms-profiler.

    An exception of the job passes through, see `is_of_the_job`. This is a class because entering and leaving a context
    manager made by contextlib takes 2.5 us, five times as long.

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
        if reason is None:
            return False
        return self._noted(reason)

    def __call__(self, reason: BaseException) -> None:
        """Note an error of ms-profiler; raise an exception of the job again."""
        if not self._noted(reason):
            raise reason

    def around(self, call: Callable[[], None]) -> Callable[[], None]:
        """Return a function that calls `call` inside this guard; Python may call the function at a fork or at exit."""

        def guarded() -> None:
            with self:
                call()

        return guarded

    def _noted(self, reason: BaseException) -> bool:
        """Note an error of ms-profiler; return False, without a note, if the job raised the exception.

        A signal handler of the job may raise an exception during this method, too. This method lets it pass.
        """
        try:
            if is_of_the_job(reason):
                return False
            self._failed(self._what, reason)
        except BaseException as other:
            if os.environ.get(RAISE) == "1" or _surely_of_the_job(other):
                raise
        return True


class Late:
    """Delay signals of the job while ms-profiler does its last work.

    Args:
        delay: `Recorder.delay_signals`.
    """

    __slots__ = ("_delay",)

    def __init__(self, delay: Callable[[bool], None]) -> None:
        self._delay = delay

    def __enter__(self) -> None:
        try:
            self._delay(True)
        except BaseException:  # of a signal that came before
            self._delay(False)
            raise

    def __exit__(self, *_: object) -> None:
        self._delay(False)


class Uncollected:
    """Run a block of ms-profiler's code in a fork child without garbage collection.

    A collection would finalize objects that the child has from its parent. For example, PyTorch prints an error if a
    worker of one data loader collects the iterator of another data loader.
    """

    __slots__ = ("_collecting",)

    def __enter__(self) -> None:
        self._collecting = gc.isenabled()
        try:
            gc.disable()
        except BaseException:  # of a signal handler of the job
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        if self._collecting:
            gc.enable()


def pass_on(reason: BaseException) -> None:
    """Raise an exception of the job again; ignore an error of ms-profiler."""
    if is_of_the_job(reason):
        raise reason


def is_of_the_job(reason: BaseException) -> bool:
    """Return whether an exception that left a function of ms-profiler was raised by the job, and is meant for the job.

    Python may call the job's signal handlers, and its trace functions (`sys.settrace`), while a function of ms-profiler
    runs. An exception of such a function, for example a timeout by SIGALRM, is meant for the job. So is an exception
    that another thread sends to this thread (`PyThreadState_SetAsyncExc`). If no frame of a handler or of a trace
    function is in the traceback, two signs together show that the job raised the exception. The innermost frame is one
    of ms-profiler, and the exception's class does not belong to Python, to ms-profiler, or to a library that
    ms-profiler calls. An exception that is not an `Exception`, for example KeyboardInterrupt, needs no sign.

    Python also calls the job's audit hooks (`sys.addaudithook`) for what ms-profiler does, for example for each file
    that it opens. Without ms-profiler, they would not raise that exception, whatever its class. So it is an error of
    ms-profiler. When the user presses Ctrl-C while such a hook runs, Python raises KeyboardInterrupt in the hook; no
    statement of the hook does.
    """
    handlers = {_code(signal.getsignal(number)) for number in signal.valid_signals()}
    trace, last, audited = reason.__traceback__, None, False
    while trace is not None:
        if trace.tb_frame.f_code in handlers or (not audited and _traces(trace.tb_frame)):
            return True
        audited = audited or _audits(trace.tb_frame)
        trace, last = trace.tb_next, trace
    if last is not None and audited:
        return isinstance(reason, KeyboardInterrupt) and last.tb_frame.f_code.co_code[last.tb_lasti] != _RAISES
    if last is None or not isinstance(reason, Exception):
        return not isinstance(reason, Exception)
    return last.tb_frame.f_code.co_filename.startswith(_PACKAGE) and not _is_known(type(reason))


def _traces(frame: FrameType) -> bool:
    """Return whether a frame is of a signal handler, or of a trace or profile function.

    Python has already removed a trace function that raised an exception, so `sys.gettrace` does not return it. Its
    arguments show what it is: the traced frame and the name of an event, or for `sys.monitoring` a code object. A
    handler may have removed itself, too. It gets a frame as well.
    ms-profiler passes frames and code only to its own functions and to those of the libraries that it calls.
    """
    return any(
        type(value) in (FrameType, CodeType) or (type(value) is str and value in _EVENTS) for value in _passed(frame)
    )


def _audits(frame: FrameType) -> bool:
    """Return whether a frame is of an audit hook of the job.

    Its arguments are the name of an event, and a tuple, in whose place the hook may have put something else. Python
    calls no other function of the job for ms-profiler whose arguments begin so and whose exceptions the job gets.
    """
    passed = _passed(frame)
    while passed and type(passed[0]) is not str:  # the object of a method, or the arguments of a partial function
        del passed[0]
    return len(passed) > 1 and frame.f_globals.get("__name__") not in sys.stdlib_module_names


def _passed(frame: FrameType) -> list[Any]:
    """Return the positional arguments of a function; none if the function is ours or one of a library that we call."""
    if _is_called(frame.f_globals.get("__name__")):
        return []
    code, values = frame.f_code, frame.f_locals
    passed = [values.get(name) for name in code.co_varnames[: code.co_argcount]]
    if code.co_flags & CO_VARARGS:
        passed += values.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount], ())
    return passed


def _surely_of_the_job(reason: BaseException) -> bool:
    """Return whether the job raised an exception.

    The check itself fails in a RecursionError, and when an audit hook raises an exception for it: it reads frames. Then
    the exception counts as one of ms-profiler, unless it may be that of Ctrl-C.
    """
    try:
        return is_of_the_job(reason)
    except BaseException:  # noqa: BLE001 - an error of ms-profiler
        return isinstance(reason, KeyboardInterrupt)


def _code(handler: Any) -> CodeType | None:
    """Return the code object of a signal handler, without calling code of the script; None if it has no code object."""
    while type(handler) is functools.partial:
        handler = handler.func
    if type(handler) is MethodType:
        handler = handler.__func__
    if type(handler) is not FunctionType:
        handler = next((vars(kind)["__call__"] for kind in type(handler).__mro__ if "__call__" in vars(kind)), None)
    return handler.__code__ if type(handler) is FunctionType else None


def _is_known(kind: type[BaseException]) -> bool:
    """Return whether a class of exceptions belongs to Python, to ms-profiler, or to a library that it calls."""
    name = vars(kind).get("__module__", "builtins")  # built-in classes have no such entry
    return _is_called(name) or (type(name) is str and name.partition(".")[0] in sys.stdlib_module_names)


def _is_called(module: object) -> bool:
    """Return whether a module belongs to ms-profiler or to a library whose C functions it calls."""
    return type(module) is str and module.partition(".")[0] in _CALLED


def words(reason: BaseException) -> str:
    """Return the name of an exception and its text; leave the text out if code of the script would have to make it."""
    kind = type(reason)
    plain = all(type(argument) in _PLAIN for argument in reason.args)
    if plain and (_is_known(kind) or isinstance(kind.__str__, WrapperDescriptorType)):
        return f"{kind.__name__}: {reason}"
    return kind.__name__
