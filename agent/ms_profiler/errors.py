"""All errors of ms-profiler that users see.

MsProfilerError
|-- OptionError       an option has a value that cannot be used
|-- UsageError        a command was called with unusable arguments
|-- StateError        a profiler was called in the wrong state
|-- StoreError        a directory holds no readable result
|-- AnalysisError     an analysis failed, and has printed why
|-- NotComparableError  two runs have no common quantity to compare
`-- DependencyError   a package that this command needs is not installed
"""

from ms_profiler.log import visible


class MsProfilerError(Exception):
    """An error that users see, with advice what to do.

    Args:
        message: what is wrong, with the bad value, in one line.
        remedy: advice for the user, in one line; each class has a default.
    """

    remedy = "The lines before this one on stderr say why."
    exit_code = 2

    def __init__(self, message: str, remedy: str | None = None) -> None:
        super().__init__(message)
        if remedy is not None:
            self.remedy = remedy

    def __str__(self) -> str:
        return visible(f"{self.args[0]} {self.remedy}")


class OptionError(MsProfilerError):
    """An option has a value that cannot be used."""

    remedy = "Run `ms-profiler options` for every option with its values."


class UsageError(MsProfilerError):
    """A command was called with unusable arguments."""

    remedy = "Run `ms-profiler --help`."


class StateError(MsProfilerError, RuntimeError):
    """A profiler was called in the wrong state. MindSpore's public documents promise a RuntimeError, so it is one."""

    remedy = "Call start() before stop(), and each of them once."


class StoreError(MsProfilerError):
    """A directory holds no readable result."""

    remedy = "Name a directory that ends with _ascend_ms, or one that holds such directories."


class AnalysisError(MsProfilerError):
    """An analysis that a script called has failed, and has printed why."""


class NotComparableError(MsProfilerError):
    """Two runs have no common quantity to compare."""

    remedy = "Compare runs of one job that were recorded in the same way."
    exit_code = 3


class DependencyError(MsProfilerError):
    """A package that this command needs is not installed."""

    remedy = "Run `pip install 'ms-profiler[analysis]'`."
