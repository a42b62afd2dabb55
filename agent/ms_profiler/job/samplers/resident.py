"""How much memory the process holds, looked at between steps.

`/proc/self/statm` has the pages that are in memory and, of these, those that belong to files; what is left is what the
process has taken for itself. So neither libraries nor our own mapped store count. A look takes 3 us.
"""

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

#: name of the counter, bytes
HELD: Final = "host memory"
#: ns between two looks, or more
PAUSE: Final = 5_000_000
_STATM: Final = "/proc/self/statm"


def held() -> int:
    """Return the bytes that the process holds, 0 where the system does not tell."""
    try:
        with open(_STATM, "rb", buffering=0) as file:
            return _bytes(file.read())
    except OSError:
        return 0


def _bytes(line: bytes) -> int:
    fields = line.split()
    return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")


class Resident:
    """Record what the process holds, between steps.

    Args:
        session: whose steps count.
    """

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._name = session.recorder.intern(HELD)
        self._file = -1
        self._pid = 0  # whose file it is
        self._last = 0  # time of the last look
        self._interval = 1  # steps

    def start(self) -> None:
        """Open the file, which the system fills anew each time that it is read."""
        self._session.steps.kept = self._kept
        if self._file < 0:
            self._open()

    def _open(self) -> None:
        try:
            self._file, self._pid = os.open(_STATM, os.O_RDONLY | os.O_CLOEXEC), os.getpid()
        except OSError as reason:
            self._session.not_collected("memory of the process", f"{_STATM}: {reason.strerror}")

    def stop(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def stepped(self, count: int) -> tuple[int, bool]:
        """Record what is held now; return from which step on to look again, which takes no time worth a word."""
        if self._file < 0 or not self._session.steps.recording:
            return count + 1, False
        self._look()
        now = self._session.recorder.now()
        if now - self._last < PAUSE:
            self._interval *= 2
        elif now - self._last > 2 * PAUSE:
            self._interval = max(self._interval // 2, 1)
        self._last = now
        return count + self._interval, False

    def _kept(self) -> None:
        """Look as well while it is not known what a step is: no source is called then."""
        if self._file >= 0 and self._session.steps.recording:
            with self._session.guard("looking at memory"):
                self._look()

    def _look(self) -> None:
        if self._pid != os.getpid():  # after a fork the file is still that of the parent
            self.stop()
            self._open()
            if self._file < 0:
                return
        self._session.recorder.counter(self._name, float(_bytes(os.pread(self._file, 128, 0))))


def watch(session: "Session") -> None:
    """Look at memory for as long as the session records."""
    resident = Resident(session)
    session.at_start(resident.start)
    session.at_end(resident.stop)
    session.at_step(resident.stepped)
