"""The class `mstx`: a script marks moments and ranges with it, on every platform."""

from typing import Any, ClassVar

from ms_profiler.job import collection
from ms_profiler.store.format import Category, Kind

DEFAULT_DOMAIN = "default"


class mstx:  # noqa: N801 - the documents' name
    """Markers for moments and ranges of a script; they have no effect while nothing is recorded."""

    _ranges: ClassVar[dict[int, tuple[str, int]]] = {}
    _next = 0

    @staticmethod
    def mark(message: str, stream: Any = None, domain: str = DEFAULT_DOMAIN) -> None:
        """Mark the current moment.

        Args:
            message: the text of the marker.
            stream: accepted for compatibility, without effect.
            domain: the domain of the marker.
        """
        current = collection.current()
        if current is not None and current.recordings:
            current.recorder.instant(current.recorder.intern(_text(message, domain)), Category.MARKER)

    @classmethod
    def range_start(cls, message: str, stream: Any = None, domain: str = DEFAULT_DOMAIN) -> int:
        """Begin a range, which may end on another thread; return the range's number, or 0 while nothing is recorded.

        Args:
            message: the text of the marker.
            stream: accepted for compatibility, without effect.
            domain: the domain of the marker.
        """
        current = collection.current()
        if current is None or not current.recordings:
            return 0
        cls._next += 1
        number = cls._next
        cls._ranges[number] = _text(message, domain), current.recorder.now()
        return number

    @classmethod
    def range_end(cls, range_id: int, domain: str = DEFAULT_DOMAIN) -> None:
        """End a range.

        Args:
            range_id: the number that `range_start` returned.
            domain: accepted for compatibility, without effect.
        """
        current, found = collection.current(), cls._ranges.pop(range_id, None)
        if current is None or found is None:
            return
        recorder = current.recorder
        recorder.record(Kind.SPAN, Category.MARKER, 0, recorder.intern(found[0]), found[1], recorder.now(), 0)


def _text(message: Any, domain: str) -> str:
    return str(message) if domain == DEFAULT_DOMAIN else f"{domain}: {message}"
