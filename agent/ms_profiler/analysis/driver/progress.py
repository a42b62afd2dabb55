"""The progress of an analysis, which is reported to a callback."""

from collections.abc import Callable
from enum import IntEnum
from typing import TypeAlias

#: a function that is called with the directory, the finished part of the work (0 to 1), and the approximate number of
#: records
Callback: TypeAlias = Callable[[str, float, int], None]


class Stage(IntEnum):
    """The stages that every record passes. The value of a stage is its approximate share of the time, in eighths."""

    READING = 1
    SUMMING = 2  # only if the recording is too large for memory
    WRITING = 5


class Progress:
    """The progress of the analysis of one directory."""

    def __init__(self, directory: str, callback: Callback | None) -> None:
        """Start with no progress.

        Args:
            directory: the analysed directory.
            callback: called with the progress; None for no reports.
        """
        self._directory, self._callback = directory, callback
        self._total = 1

    def of(self, total: int) -> None:
        """Note the approximate number of records."""
        self._total = max(total, 1)

    def at(self, stage: Stage, done: int) -> None:
        """Report that `done` records have passed a stage."""
        if self._callback is not None:
            part = min(done / self._total, 1.0)
            before = sum(other for other in Stage if other < stage)
            self._callback(self._directory, (before + stage * part) / sum(Stage), self._total)
