"""Make the recorder: the native extension, or the pure-Python recorder where the extension cannot be loaded."""

import functools
from collections.abc import Callable
from typing import Any

from ms_profiler.job.recorder.contract import Recorder, RecorderStats

__all__ = ["Recorder", "RecorderStats", "create", "shield"]


def create(prefer_native: bool = True, anonymous: bool = False) -> tuple[Recorder, str]:
    """Return a recorder, and a line that says why it is not the native one; the line is empty for the native one.

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
    """Return a replacement of a callback of ours whose exceptions Python would only print.

    Such callbacks are those of the garbage collector, of weak references and of forks. Python may call a signal handler
    of the job between two instructions of a callback. An exception of this handler would then not reach the job. The
    replacement raises the exception after the callback has returned. If the exception has ended the callback early,
    the replacement first calls the callback again. Without the extension, Python still only prints the exception.

    Args:
        call: the callback.
        failed: called with an exception of the callback; raises the job's own exceptions again, as `Guard` does.
    """
    return _shield()(call, failed)


@functools.cache
def _shield() -> Callable[[Callable[..., Any], Callable[[BaseException], Any]], Callable[..., Any]]:
    """Return the extension's `shield`, or one in Python; a failed import is not tried again for each callback."""
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
