"""A program that was started and is nobody's child: to wait for it, and to kill it."""

import os
import select
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

#: bytes of a line that are kept
_LINE = 4096
#: between two looks whether somebody still waits
_PAUSE_MS = 5


class Detached(NamedTuple):
    """A program that was started.

    Attributes:
        pid: its process id, which is its own while the pipe is open at its end.
        reader: end of a pipe that it has the other end of, as its stdout.
    """

    pid: int
    reader: int

    def wait(self, timeout: float, leaves: Callable[[], object] = bool) -> str | None:
        """Return what the program wrote when it has ended; None when it was killed because it took too long.

        Args:
            timeout: seconds.
            leaves: says that nobody waits any longer; asked all the time.
        """
        text = b""
        end = time.monotonic() + timeout
        poll = select.poll()
        poll.register(self.reader, select.POLLIN)
        ended = False
        try:
            while not ended and (left := end - time.monotonic()) > 0 and not leaves():
                if poll.poll(min(left * 1000, _PAUSE_MS)):
                    part = os.read(self.reader, _LINE)
                    ended = not part
                    text = (text + part)[:_LINE]
        finally:  # a signal's handler may raise
            if not ended:
                self.kill()
            os.close(self.reader)
        return text.decode("utf-8", "replace") if ended else None

    def kill(self) -> None:
        """Kill the program, which has not ended."""
        for kill in os.killpg, os.kill:  # started by a shell it may be no leader
            try:
                kill(self.pid, signal.SIGKILL)
            except OSError:
                pass
