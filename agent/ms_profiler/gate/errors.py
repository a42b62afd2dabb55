"""Errors that end a gate without a verdict, with their exit codes."""

import os
import traceback
from typing import Final

from ms_profiler.errors import MsProfilerError, UsageError
from ms_profiler.gate.exits import FAILED, NOT_COMPARABLE

_OURS: Final = f"{os.sep}ms_profiler{os.sep}"


class IncompleteError(MsProfilerError):
    """The runs cannot be compared, or a part of a run is missing. Then the gate never exits with the code of a pass."""

    remedy = "Run it again."
    exit_code = NOT_COMPARABLE


class FailedError(MsProfilerError):
    """An unexpected error ended the gate, so the gate has no verdict. The exit code is not that of a regression.

    Args:
        error: the unexpected error.
    """

    remedy = "This is an error in ms-profiler; please report this line."
    exit_code = FAILED

    def __init__(self, error: BaseException) -> None:
        own = [frame for frame in traceback.extract_tb(error.__traceback__) if _OURS in frame.filename]
        where = "".join(f" ({frame.filename.rpartition(_OURS)[2]}, line {frame.lineno})" for frame in own[-1:])
        said = (str(error).splitlines() or [""])[0]
        super().__init__(f"The gate has no verdict, because it failed: {type(error).__name__}: {said}{where}.")


class NotWrittenError(UsageError):
    """A requested file cannot be written.

    Args:
        path: the path of the file.
        error: the error that the system raised.
    """

    def __init__(self, path: str, error: OSError) -> None:
        super().__init__(f"{path} cannot be written: {error.strerror}.", "Name a file in a folder that exists.")
