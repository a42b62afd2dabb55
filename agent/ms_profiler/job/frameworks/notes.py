"""Notes about the whole process, written into its store for every recording."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ms_profiler.store.format import Category, Kind

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: Characters of a list of ranks; a longer one is written as ranges.
RANKS_MOST = 4000


class Notes:
    """Write notes about the whole process; every recording gets all of them."""

    def __init__(self, host: "Host") -> None:
        self.host = host
        #: text of a note -> its number
        self._known: dict[str, int] = {}
        host.at_start(self._again)

    def add(self, text: str, number: int) -> None:
        """Note `text`, unless it is known."""
        if text not in self._known:
            self._known[text] = number
            self._record(text, number)

    def _again(self) -> None:
        for text, number in self._known.items():
            self._record(text, number)

    def _record(self, text: str, number: int) -> None:
        # not `instant`, which a paused recorder refuses: the note holds beyond the pause
        recorder = self.host.recorder
        now, label = recorder.now(), recorder.intern(text)
        recorder.record(Kind.INSTANT, Category.COMMUNICATION, 0, label, now, now, number)


def ranges(ranks: Iterable[int]) -> str:
    """Return ranks as text: "0,1,2", or "0-2" where that would be too long."""
    listed = list(ranks)
    text = ",".join(map(str, listed))
    if len(text) <= RANKS_MOST:
        return text
    parts: list[list[int]] = []
    for rank in listed:
        if parts and rank == parts[-1][1] + 1:
            parts[-1][1] = rank
        else:
            parts.append([rank, rank])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in parts)
