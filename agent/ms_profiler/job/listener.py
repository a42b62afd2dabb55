"""Choose the thread of the job that decides where steps end."""

import threading
from threading import get_ident

from ms_profiler.job.recorder.bases import ListenerBase

#: largest number of threads, besides the chosen one, whose begin of work is kept
MOST = 64


class Listener(ListenerBase):
    """Choose the thread that decides where steps end: the first that reports the end of a step, until another trains.

    The first thread does not always train: it may fill a queue with batches, or warm a network up.

    Attributes:
        thread: id of the chosen thread; 0 while there is none.
    """

    __slots__ = ("_works",)

    def __init__(self) -> None:
        self.thread = 0
        self._works: dict[int, int] = {}  # id of another thread -> begin of its work, ns

    def hears(self) -> bool:
        """Return whether the calling thread is the chosen one; the first thread that calls this function is chosen."""
        thread = get_ident()
        if not self.thread:
            self.thread = thread
        return self.thread == thread

    def works(self, at_ns: int) -> None:
        """Note that the calling thread, which is not the chosen one, works: its first step begins at `at_ns`."""
        if len(self._works) < MOST:
            self._works.setdefault(get_ident(), at_ns)

    def turn(self, busy: bool) -> bool:
        """Choose the calling thread, which trains; but keep a chosen thread that also trains and still runs.

        Args:
            busy: whether the chosen thread trains.

        Returns:
            Whether the calling thread is the chosen one now.
        """
        # `_active` is Python's table of threads by id. `threading.enumerate` cannot be used: it returns objects whose
        # attribute `ident` may be overridden by a class of the job.
        if busy and self.thread in getattr(threading, "_active", (self.thread,)):
            return False
        self.thread = get_ident()
        return True

    def began(self) -> int | None:
        """Return the time at which the calling thread began to work, ns; None if `works` did not note it."""
        return self._works.pop(get_ident(), None)
