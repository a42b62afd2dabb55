"""Record the memory of tensors on the host: the blocks that PyTorch's allocator takes from the C library and returns.

PyTorch itself reports memory only to Kineto, and ms-profiler records operators without Kineto. So the extension
replaces two functions of the C library that the allocator's library imports (`native/blocks.c`). The extension counts
all blocks, and records each block of `LEAST` bytes or more. This module reads the counts between steps.
"""

import struct
import sys
from typing import TYPE_CHECKING, Final

from ms_profiler.job.frameworks.base import Target
from ms_profiler.job.pace import Pace
from ms_profiler.job.sources import NEVER
from ms_profiler.store.format import Category, Kind
from ms_profiler.store.names import TENSORS, TENSORS_PEAK

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

OPTION: Final = "profile_memory"
#: name of the memory records, used when `run_info.json` says that they are missing
WHAT: Final = "memory of tensors"
#: library that contains `c10::alloc_cpu`
LIBRARY: Final = "libc10.so"
#: smallest size of a block that gets its own record, in bytes; smaller blocks are only counted
LEAST: Final = 1024
#: PAUSE: shortest time between two readings of the counts, ns. MOST: largest number of steps between two readings.
PAUSE: Final = 1_000_000
MOST: Final = 1024
#: The source lines that allocate blocks are recorded only in some steps, because this is expensive: in step FIRST, then
#: in step FIRST * FACTOR, and so on.
FIRST, FACTOR = 2, 2
#: copy of a member of an enumeration, because to look it up takes 2 us while the processor's caches are cold
COUNTER: Final = int(Kind.COUNTER)


class Allocator:
    """Count the memory of tensors from the first recording that requests it to the end of the process.

    The counting continues after a recording ends. So a later recording knows which blocks are in use at its begin.

    Args:
        host: the session, which receives the records.
    """

    def __init__(self, host: "Host") -> None:
        self._host = host
        self._on = False
        self._pace = Pace(PAUSE, most=MOST)
        self._places = FIRST
        self._placing = False
        self._names = host.recorder.intern(TENSORS_PEAK), host.recorder.intern(TENSORS)

    def start(self) -> None:
        """Begin to count blocks if a recording requests it."""
        host = self._host
        if self._on or host.forked or not (host.asks(OPTION) and host.wants("CPU")):
            return
        why = host.recorder.watch_blocks(LIBRARY, LEAST)
        if why:
            host.not_collected(WHAT, why)
        self._on = not why

    def end(self) -> None:
        """Record the memory in use at the end of a recording."""
        if self._on and not self._host.forked:
            self._host.recorder.block_places(False)
            self._record(self._host.recorder.now())

    def stepped(self, count: int) -> tuple[int, bool]:
        """Record the peak of the memory in use since the last call, and the memory in use now."""
        host = self._host
        if not self._on or not host.asks(OPTION):
            return NEVER, False
        if host.steps.recording:
            self._record(host.steps.ended_ns or host.recorder.now())
        if not self._on:
            return NEVER, False
        self._pace.looked(host.recorder.now())
        if self._place(count):
            return count + 1, True
        return count + self._pace.steps, False

    def _place(self, count: int) -> bool:
        """Record the source lines that allocate blocks in the steps 2, 4, 8 and so on, and in no other steps.

        Returns:
            Whether the lines are recorded in the next step.
        """
        if self._placing:
            self._host.recorder.block_places(False)
            self._placing = False
        elif count >= self._places and self._host.steps.recording and self._host.steps.marks.sampled:
            self._places = FACTOR * count
            self._placing = True  # noted first, because an exception of the job may end the next call
            self._placing = self._host.recorder.block_places(True)
        return self._placing

    def _record(self, at_ns: int) -> None:
        """Record the counts, or stop counting if they are wrong.

        Args:
            at_ns: end of the step, by the recorder's clock, ns.
        """
        recorder = self._host.recorder
        found = recorder.blocks()
        if not found.intact or found.lost:
            self._on = False
            recorder.block_places(False)
            recorder.watch_no_blocks()
            why = f"{found.lost} blocks could not be noted" if found.lost else "another tool has replaced its imports"
            self._host.not_collected(f"{WHAT} from step {self._host.steps.number} on", f"{LIBRARY}: {why}")
            return
        # The times of the two records are the last two nanoseconds of the step. So the records belong to this step.
        for before, (name, value) in zip((2, 1), zip(self._names, (found.peak, found.live), strict=True), strict=True):
            bits = struct.unpack("=Q", struct.pack("=d", value))[0]
            recorder.record(COUNTER, Category.OTHER, 0, name, at_ns - before, at_ns - before, bits)


def targets(host: "Host") -> list[Target]:
    """Count blocks from now on; return no functions to wrap, because the extension replaces C functions."""
    if sys.platform == "linux":
        allocator = Allocator(host)
        host.at_start(allocator.start)
        host.at_end(allocator.end)
        host.at_step(allocator.stepped)
    return []
