"""Make the recorder: with the C extension, or in pure Python where the extension cannot be loaded."""

import functools
from collections.abc import Callable
from typing import Any

from ms_profiler.job.recorder.contract import Recorder, RecorderStats

__all__ = ["Recorder", "RecorderStats", "create", "shield"]


def create(prefer_native: bool = True, anonymous: bool = False) -> tuple[Recorder, str]:
    """Return a recorder, and the reason why it does not use the C extension; the reason is empty if it does.

    Args:
        prefer_native: whether to use the extension if it loads.
        anonymous: whether to replace names of the job.
    """
    reason = "not requested"
    if prefer_native:
        try:
            from ms_profiler.job.recorder.native import AnonymousRecorder, NativeRecorder

            return AnonymousRecorder() if anonymous else NativeRecorder(), ""
        except ImportError as error:
            reason = " ".join(str(error).split())
    from ms_profiler.job.recorder.python import PythonRecorder

    return PythonRecorder(anonymous=anonymous), reason


def shield(call: Callable[..., Any], failed: Callable[[BaseException], Any]) -> Callable[..., Any]:
    """Return a replacement of a callback of ms-profiler, so that exceptions of the job are not lost in the callback.

    Python only prints the exceptions of some callbacks: those of the garbage collector, of weak references and of
    forks. While a callback runs, Python may call a signal handler of the job, and the exception of this handler would
    not reach the job. The replacement raises the exception after the callback has returned. If the exception has ended
    the callback early, the replacement first calls the callback again. This works only with the C extension. Without
    it, Python still only prints the exception.

    Args:
        call: the callback.
        failed: called with an exception of the callback. It notes an error of ms-profiler, and raises an exception of
            the job again.
    """
    return _shield()(call, failed)


@functools.cache
def _shield() -> Callable[[Callable[..., Any], Callable[[BaseException], Any]], Callable[..., Any]]:
    """Return the C extension's `shield`, or one in Python; cached, so that a failed import is tried only once."""
    try:
        from ms_profiler.job.recorder.native import shield as native
    except ImportError:
        return _python_shield
    return native


def _python_shield(call: Callable[..., Any], failed: Callable[[BaseException], Any]) -> Callable[..., Any]:
    def shielded(*args: Any) -> Any:
        try:
            return call(*args)
        except BaseException as reason:  # noqa: BLE001 - an exception of the job is raised again
            return failed(reason)

    return shielded
