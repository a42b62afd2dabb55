"""Record the memory of tensors on a processor: the blocks that PyTorch's allocator takes from the C library and
returns.

PyTorch's own memory events exist in Kineto's recordings only, and Kineto cannot run together with the stream of
operators. So the extension replaces two imports of the library that contains the allocator (`native/blocks.c`). It
counts all blocks, and records larger ones one by one. This module reads the counts between steps.
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
#: the data that a result without it lacks
WHAT: Final = "memory of tensors"
#: library that contains `c10::alloc_cpu`
LIBRARY: Final = "libc10.so"
#: bytes from which on a block is recorded one by one: smaller ones are counted only
LEAST: Final = 1024
#: smallest time between two readings of the counts, ns, and largest number of steps between them
PAUSE: Final = 1_000_000
MOST: Final = 1024
#: number of the first step in which the lines are recorded that take blocks, and the factor to the next one
FIRST, FACTOR = 2, 2
#: copy of a member of an enumeration, whose look-up takes 2 us where caches are cold
COUNTER: Final = int(Kind.COUNTER)


class Allocator:
    """Count the memory of tensors from the first recording that requests it to the end of the process.

    The counting continues between recordings, so that a later one knows the blocks in use when it begins.

    Args:
        host: the session that records.
    """

    def __init__(self, host: "Host") -> None:
        self._host = host
        self._on = False
        self._pace = Pace(PAUSE, most=MOST)
        self._places = FIRST
        self._placing = False
        self._names = host.recorder.intern(TENSORS_PEAK), host.recorder.intern(TENSORS)

    def start(self) -> None:
        """Begin to count."""
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
            self._tell(self._host.recorder.now())

    def stepped(self, count: int) -> tuple[int, bool]:
        """Record the peak of the memory in use since the last call, and the memory in use now."""
        host = self._host
        if not self._on or not host.asks(OPTION):
            return NEVER, False
        if host.steps.recording:
            self._tell(host.steps.ended_ns or host.recorder.now())
        if not self._on:
            return NEVER, False
        self._pace.looked(host.recorder.now())
        if self._place(count):
            return count + 1, True
        return count + self._pace.steps, False

    def _place(self, count: int) -> bool:
        """Record the lines that take blocks in the steps 2, 4, 8 and so on, or stop that; return whether they are
        recorded in the next step.
        """
        if self._placing:
            self._placing = False
            self._host.recorder.block_places(False)
        elif count >= self._places and self._host.steps.recording and self._host.steps.marks.sampled:
            self._places = FACTOR * count
            self._placing = self._host.recorder.block_places(True)
        return self._placing

    def _tell(self, at_ns: int) -> None:
        recorder = self._host.recorder
        found = recorder.blocks()
        if not found.intact or found.lost:
            self._on = False
            recorder.block_places(False)
            recorder.watch_no_blocks()
            why = f"{found.lost} blocks could not be noted" if found.lost else "another tool has replaced its imports"
            self._host.not_collected(f"{WHAT} from step {self._host.steps.number} on", f"{LIBRARY}: {why}")
            return
        # the times are the last ones of the step
        for before, (name, value) in zip((2, 1), zip(self._names, (found.peak, found.live), strict=True), strict=True):
            bits = struct.unpack("=Q", struct.pack("=d", value))[0]
            recorder.record(COUNTER, Category.OTHER, 0, name, at_ns - before, at_ns - before, bits)


def targets(host: "Host") -> list[Target]:
    """Register the counting of blocks; return no targets, because no Python function is wrapped."""
    if sys.platform == "linux":
        allocator = Allocator(host)
        host.at_start(allocator.start)
        host.at_end(allocator.end)
        host.at_step(allocator.stepped)
    return []
