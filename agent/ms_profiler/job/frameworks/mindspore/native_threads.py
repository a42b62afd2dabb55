"""Find out from /proc whether the threads that a native library started in this process are at work."""

import posix
from _io import open
from typing import Final

from ms_profiler import clock

#: LOOK: time between two checks of the threads, s. PATIENCE: longest time to wait until the threads sleep, s.
LOOK: Final = 0.02
PATIENCE: Final = 1.0
#: Processor time that the threads may use between two checks and still count as idle, ns. Real work takes many times as
#: much.
IDLE: Final = 1_000_000


def numbers() -> list[str]:
    """Return the thread ids of this process."""
    return posix.listdir("/proc/self/task")


class NativeThreads:
    """Check whether some threads sleep because they have no work.

    One check is not enough. The thread that makes the check holds the GIL, and a thread with work also sleeps while it
    waits for the GIL.

    Args:
        ids: thread ids; threads that have ended count as sleeping.
    """

    def __init__(self, ids: list[str]) -> None:
        self.ids = ids
        # (time of the last check at which all threads slept, processor time in ns that they had used until this check)
        self._seen: tuple[float, int] | None = None

    def forget(self) -> None:
        """Forget the results of earlier checks."""
        self._seen = None

    def still(self) -> bool:
        """Return whether the threads sleep now, slept at the last check, and did no work between the two checks."""
        now = clock.monotonic()
        if self._seen is not None and now - self._seen[0] < LOOK:
            return False
        used = 0
        for thread in self.ids:
            asleep, nanoseconds = _look(thread)
            if not asleep:
                self._seen = None
                return False
            used += nanoseconds
        before, self._seen = self._seen, (now, used)
        return before is not None and used - before[1] < IDLE

    def settle(self) -> bool:
        """Wait until `still` returns True, at most `PATIENCE` seconds; return whether the threads sleep."""
        deadline = clock.monotonic() + PATIENCE
        while not self.still():
            if clock.monotonic() > deadline:
                return False
            clock.sleep(LOOK)
        return True


def _look(thread: str) -> tuple[bool, int]:
    """Return whether a thread sleeps, and the processor time it has used, in ns."""
    try:
        with open(f"/proc/self/task/{thread}/stat", "rb") as stream:
            state = stream.read().rpartition(b") ")[2][:1]
        with open(f"/proc/self/task/{thread}/schedstat", "rb") as stream:
            return state == b"S", int(stream.read().split()[0])
    except (OSError, IndexError, ValueError):
        return True, 0
