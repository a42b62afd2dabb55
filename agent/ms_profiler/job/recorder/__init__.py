"""Make the recorder: the native extension, or the pure-Python recorder where the extension cannot be loaded."""

from ms_profiler.job.recorder.contract import Recorder, RecorderStats

__all__ = ["Recorder", "RecorderStats", "collector", "create"]


def create(prefer_native: bool = True, anonymous: bool = False) -> tuple[Recorder, str]:
    """Return a recorder, and one line with the reason if it is not the native one; otherwise an empty text.

    Args:
        prefer_native: use the extension if it loads.
        anonymous: replace names of the job.
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


def collector() -> str:
    """Return the path of the extension, to which PyTorch reports its operators; empty if it does not load."""
    try:
        from ms_profiler.job.recorder.native import PATH
    except ImportError:
        return ""
    return PATH
