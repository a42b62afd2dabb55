"""Who is who in a distributed job: the rank MindSpore gave this process, and which ranks are in which group.

The environment need not know the rank: msrun on several nodes without --node_rank leaves it to the job's `init()`. What
is found is noted in the store, once for every recording, so that it is there however the process ends.
"""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ms_profiler.job.frameworks.base import Target
from ms_profiler.store.format import Category, Kind

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

MANAGEMENT = "mindspore.communication.management"
#: Characters of a list of ranks; a longer one is written as ranges.
RANKS_MOST = 4000
#: A number of steps that no job reaches.
NEVER = 1 << 62


class Notes:
    """Note what holds for the whole process; every recording gets all of it."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        #: text -> number that goes with it
        self._known: dict[str, int] = {}
        self._groups: set[str] = set()
        self._ranked = False
        session.at_start(self._again)

    def add(self, text: str, number: int) -> None:
        """Note `text`, unless it is known."""
        if text not in self._known:
            self._known[text] = number
            self._record(text, number)

    def group(self, name: str) -> None:
        """Note which ranks are in a group, in their order, unless MindSpore cannot tell."""
        if name in self._groups:
            return
        try:
            ranks = sys.modules[MANAGEMENT].get_process_group_ranks(name)
        except Exception:  # noqa: BLE001 - it says so in many ways
            return
        self._groups.add(name)
        self.add(f"group {name} ranks {ranges(ranks)}", len(ranks))

    def rank(self) -> bool:
        """Note the rank of this process; return whether it has one yet."""
        management = sys.modules.get(MANAGEMENT)
        if not self._ranked and management is not None and management.GlobalComm.INITED:
            rank = int(management.get_rank())
            self.add(f"rank {rank} of {management.get_group_size()}", rank)
            self._ranked = True
        return self._ranked

    def layout(self) -> None:
        """Note every group that was made, and how the job is cut over its ranks, as far as its context tells."""
        if not self.rank():
            return
        helper = sys.modules.get("mindspore.communication._comm_helper")
        for name in list(helper._get_group_map()) if helper is not None else ():
            self.group(name)
        context = sys.modules["mindspore.context"].get_auto_parallel_context
        stages = int(context("pipeline_stages"))
        self.add(f"parallel mode {context('parallel_mode')} in {stages} stages", stages)

    def _again(self) -> None:
        for text, number in self._known.items():
            self._record(text, number)

    def _record(self, text: str, number: int) -> None:
        # not `instant`, which a pause refuses: this holds beyond it
        recorder = self.session.recorder
        now, label = recorder.now(), recorder.intern(text)
        recorder.record(Kind.INSTANT, Category.COMMUNICATION, 0, label, now, now, number)


_notes: Notes | None = None


def notes(session: "Session") -> Notes:
    """Return the notes of the session, of which a process has one."""
    global _notes
    if _notes is None or _notes.session is not session:
        _notes = Notes(session)
    return _notes


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


def targets(session: "Session") -> list[Target]:
    """Look for the rank between steps until there is one, and at the end; nothing is wrapped."""
    found = notes(session)

    def stepped(count: int) -> tuple[int, bool]:
        # a job that never calls `init` is asked ever less often
        return NEVER if found.rank() else 2 * count + 1, False

    session.at_step(stepped)
    session.at_end(found.layout)
    return []
