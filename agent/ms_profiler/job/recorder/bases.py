"""The base classes of `Steps`, `Track` and `Listener`: the extension's, or empty ones where it cannot be loaded.

The extension's classes have the attributes that its hooks read and write in every step, see native/steps.h.
"""

try:
    from ms_profiler.job.recorder.native import ListenerBase, StepsBase, TrackBase
except ImportError:

    class ListenerBase:  # type: ignore[no-redef]
        """See `native.ListenerBase`."""

    class StepsBase:  # type: ignore[no-redef]
        """See `native.StepsBase`."""

    class TrackBase:  # type: ignore[no-redef]
        """See `native.TrackBase`."""


__all__ = ["ListenerBase", "StepsBase", "TrackBase"]
