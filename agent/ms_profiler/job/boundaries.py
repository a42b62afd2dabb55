"""Boundaries between steps as one source reports them, before it is known which source is believed."""

from collections.abc import Hashable

#: Boundaries kept while undecided. A cycle of optimizers or accumulated batches longer than this is not recognised.
PENDING = 64


class Track:
    """Boundaries of one source."""

    __slots__ = ("pending", "start")

    def __init__(self) -> None:
        self.start: int | None = None
        self.pending: list[tuple[int, int]] = []

    def end(self, end_ns: int) -> tuple[int, int] | None:
        """Close the step that is open and open the next; None when none was."""
        start, self.start = self.start, end_ns
        return None if start is None else (start, end_ns)


class Leader:
    """Tell whose calls are the steps when several networks are called in turn: the one that is called again first.

    Another takes its place after `TAKEOVER` calls between two of its own: another part of the job has begun.
    """

    TAKEOVER = 4

    def __init__(self) -> None:
        self._leader: Hashable = None
        self._others: dict[Hashable, list[int]] = {}

    def called(self, which: Hashable, end_ns: int) -> list[int]:
        """Return the ends of steps that the end of this call tells of, oldest first."""
        if which != self._leader:
            if len(self._others) > PENDING:
                self._others.clear()
            ends = self._others.setdefault(which, [])
            ends.append(end_ns)
            if len(ends) < (2 if self._leader is None else self.TAKEOVER):
                return []
            self._leader = which
        else:
            ends = [end_ns]
        self._others = {}
        return ends
