"""Records that hold for the whole process and not for a moment, such as the ranks of its communication groups."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ms_profiler.store.format import Category, Kind

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: Largest length of a list of ranks such as "0,1,2", in characters. A longer list is written as ranges: "0-2".
RANKS_MOST = 4000


class Notes:
    """Write notes about the whole process into the store, and again into the store of each later recording."""

    def __init__(self, host: "Host") -> None:
        self.host = host
        #: text of a note -> its number
        self._known: dict[str, int] = {}
        host.at_start(self._again)

    def add(self, text: str, number: int) -> None:
        """Write a note; do nothing if a note with the same text was written before.

        Args:
            text: text of the note.
            number: number to store with the text.
        """
        if text not in self._known:
            self._known[text] = number
            self._record(text, number)

    def _again(self) -> None:
        for text, number in self._known.items():
            self._record(text, number)

    def _record(self, text: str, number: int) -> None:
        # The recorder may be paused. Then it ignores `instant`, but accepts `record`. The note must not be lost,
        # because it also applies to the time after the pause.
        recorder = self.host.recorder
        now, label = recorder.now(), recorder.intern(text)
        recorder.record(Kind.INSTANT, Category.COMMUNICATION, 0, label, now, now, number)


def ranges(ranks: Iterable[int]) -> str:
    """Return ranks as text: "0,1,2", or "0-2" if the first form has more than `RANKS_MOST` characters."""
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
