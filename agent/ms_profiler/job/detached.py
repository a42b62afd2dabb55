"""Wait for a program that was started outside of the process tree."""

import posix
import select
from collections.abc import Callable
from typing import NamedTuple

from ms_profiler import clock

#: largest output that `wait` returns, in bytes
_LINE = 4096
#: milliseconds between two calls of `leaves`
_PAUSE_MS = 5


class Detached(NamedTuple):
    """A program that was started outside of the process tree, with a pipe as its stdout.

    Attributes:
        pid: process id of the program; valid while the program holds its end of the pipe open.
        reader: descriptor of the other end of the pipe.
    """

    pid: int
    reader: int

    def wait(self, timeout: float, leaves: Callable[[], object] = bool) -> str | None:
        """Wait for the program and return its output, or None if the program still runs when the wait ends.

        Args:
            timeout: longest wait, in seconds.
            leaves: called again and again during the wait; a true result ends the wait.
        """
        text = b""
        end = clock.monotonic() + timeout
        poll = select.poll()
        poll.register(self.reader, select.POLLIN)
        ended = False
        try:
            while not ended and (left := end - clock.monotonic()) > 0 and not leaves():
                if poll.poll(min(left * 1000, _PAUSE_MS)):
                    part = posix.read(self.reader, _LINE)
                    ended = not part
                    text = (text + part)[:_LINE]
        finally:  # a signal handler of the job may raise an exception
            posix.close(self.reader)
        return text.decode("utf-8", "replace") if ended else None
