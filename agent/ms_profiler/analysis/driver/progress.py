"""Progress of an analysis."""

from collections.abc import Callable
from enum import IntEnum
from typing import TypeAlias

#: told the directory, the part of the work that is done (0 to 1), and how many records there are, about
Tell: TypeAlias = Callable[[str, float, int], None]


class Stage(IntEnum):
    """Stages of every record; the value is about the share of the time, in eighths."""

    READING = 1
    SUMMING = 2  # in a recording that is too large to hold
    WRITING = 5


class Progress:
    """Progress of one directory."""

    def __init__(self, directory: str, tell: Tell | None) -> None:
        """Start at nothing.

        Args:
            directory: that is analysed.
            tell: called now and then; None for nobody.
        """
        self._directory, self._tell = directory, tell
        self._total = 1

    def of(self, total: int) -> None:
        """Note how many records there are, about."""
        self._total = max(total, 1)

    def at(self, stage: Stage, done: int) -> None:
        """Tell that so many records have passed a stage."""
        if self._tell is not None:
            part = min(done / self._total, 1.0)
            before = sum(other for other in Stage if other < stage)
            self._tell(self._directory, (before + stage * part) / sum(Stage), self._total)
