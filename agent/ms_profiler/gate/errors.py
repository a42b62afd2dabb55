"""Errors that end a gate without a verdict, with their exit codes."""

from ms_profiler.errors import MsProfilerError, UsageError
from ms_profiler.gate.exits import NOT_COMPARABLE


class IncompleteError(MsProfilerError):
    """The runs cannot be compared, or a part of a run is missing. Then the gate never exits with the code of a pass."""

    remedy = "Run it again."
    exit_code = NOT_COMPARABLE


class NotWrittenError(UsageError):
    """A requested file cannot be written.

    Args:
        path: the path of the file.
        error: the error that the system raised.
    """

    def __init__(self, path: str, error: OSError) -> None:
        super().__init__(f"{path} cannot be written: {error.strerror}.", "Name a file in a folder that exists.")
