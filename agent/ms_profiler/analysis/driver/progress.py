"""Progress of an analysis."""

from collections.abc import Callable
from enum import IntEnum
from typing import TypeAlias

#: called with the directory, the finished part of the work (0 to 1), and the approximate number of records
Tell: TypeAlias = Callable[[str, float, int], None]


class Stage(IntEnum):
    """Stages of the work on every record; the value is the approximate share of the time, in eighths."""

    READING = 1
    SUMMING = 2  # in a recording that is too large to hold
    WRITING = 5


class Progress:
    """Progress of one directory."""

    def __init__(self, directory: str, tell: Tell | None) -> None:
        """Begin at 0.

        Args:
            directory: the analysed directory. tell: called now and then; None for no reports.
        """
        self._directory, self._tell = directory, tell
        self._total = 1

    def of(self, total: int) -> None:
        """Note the approximate number of records."""
        self._total = max(total, 1)

    def at(self, stage: Stage, done: int) -> None:
        """Report that this many records have passed a stage."""
        if self._tell is not None:
            part = min(done / self._total, 1.0)
            before = sum(other for other in Stage if other < stage)
            self._tell(self._directory, (before + stage * part) / sum(Stage), self._total)
