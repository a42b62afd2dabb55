"""Boundaries between steps as a source reports them, before a source is chosen."""

from collections.abc import Hashable

#: Boundaries held in memory while no source is chosen. A longer cycle of optimizers or accumulated batches is not
#: recognised.
PENDING = 64


class Track:
    """Boundaries of one source."""

    __slots__ = ("pending", "start")

    def __init__(self) -> None:
        self.start: int | None = None
        self.pending: list[tuple[int, int]] = []

    def end(self, end_ns: int) -> tuple[int, int] | None:
        """Close the open step, open the next one, and return begin and end; None when no step was open."""
        start, self.start = self.start, end_ns
        return None if start is None else (start, end_ns)


class Leader:
    """Choose, among several networks called in turn, the one whose calls are the steps: the first to be called twice.

    Another network replaces it after `TAKEOVER` calls between two calls of the first, because another part of the job
    has begun.
    """

    TAKEOVER = 4

    def __init__(self) -> None:
        self._leader: Hashable = None
        self._others: dict[Hashable, list[int]] = {}

    def called(self, which: Hashable, end_ns: int) -> list[int]:
        """Return the ends of the steps that are known after this call, oldest first."""
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
