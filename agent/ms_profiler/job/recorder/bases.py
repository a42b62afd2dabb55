"""The base classes of `Steps`, `Track` and `Listener`: the C extension's, or empty ones where it cannot be loaded.

The extension's hooks read and write some attributes of these objects in every step. The extension's base classes store
these attributes where C code can access them directly (native/steps.h).
"""

from collections import deque

try:
    from ms_profiler.job.recorder.native import ListenerBase, StepsBase, TrackBase
except ImportError:

    class ListenerBase:  # type: ignore[no-redef]
        """The base class of `Listener` without the C extension; it adds nothing."""

    class StepsBase:  # type: ignore[no-redef]
        """The base class of `Steps` without the C extension; it keeps the lengths of the last steps."""

        def __init__(self) -> None:
            self._lengths: deque[int] = deque(maxlen=512)

        def _keep_length(self, ns: int) -> None:
            self._lengths.append(ns)

        def lengths(self, count: int) -> list[int]:
            """Return the lengths of the last `count` steps, at most 512, ns."""
            return list(self._lengths)[max(len(self._lengths) - count, 0) :]

    class TrackBase:  # type: ignore[no-redef]
        """The base class of `Track` without the C extension; it adds nothing."""


__all__ = ["ListenerBase", "StepsBase", "TrackBase"]
