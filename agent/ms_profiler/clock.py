"""Read the system's clocks by functions that no test of a job replaces.

Python loads this module when it starts. So its functions are those of Python, also if a job replaces the functions of
`time` before it imports a framework. Libraries that stop the time, such as freezegun, replace `time.monotonic` and
others in every module, but not `clock_gettime`.
"""

from time import (
    CLOCK_MONOTONIC,
    CLOCK_MONOTONIC_RAW,
    CLOCK_REALTIME,
    CLOCK_THREAD_CPUTIME_ID,
    clock_gettime,
    clock_gettime_ns,
    sleep,
)

__all__ = ["monotonic", "raw_ns", "sleep", "thread_ns", "wall", "wall_ns"]


def monotonic() -> float:
    """Return CLOCK_MONOTONIC in seconds."""
    return clock_gettime(CLOCK_MONOTONIC)


def raw_ns() -> int:
    """Return CLOCK_MONOTONIC_RAW in nanoseconds."""
    return clock_gettime_ns(CLOCK_MONOTONIC_RAW)


def thread_ns() -> int:
    """Return the CPU time of this thread in nanoseconds."""
    return clock_gettime_ns(CLOCK_THREAD_CPUTIME_ID)


def wall() -> float:
    """Return the seconds since 1970."""
    return clock_gettime(CLOCK_REALTIME)


def wall_ns() -> int:
    """Return the nanoseconds since 1970."""
    return clock_gettime_ns(CLOCK_REALTIME)
