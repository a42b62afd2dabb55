"""Limit the memory and the time of a program that reads damaged files."""

import resource
import signal


class TooLongError(BaseException):
    """Say that reading takes too long; no handler of ms-profiler catches this class."""


def limit(memory):
    """Limit the address space to `memory` bytes, and let an alarm raise `TooLongError`.

    Polars' threads reserve much of the address space without using it.
    """
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    signal.signal(signal.SIGALRM, _late)


def _late(*_):
    raise TooLongError
