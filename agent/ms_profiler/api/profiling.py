"""The common base of the newer and the older interface."""

from ms_profiler.api.capture import Capture


class Profiling:
    """Metadata, results, and the end of recording with a `with` block or the object."""

    _capture: Capture

    def add_metadata(self, key: str, value: str) -> None:
        """Add a text to `profiler_metadata.json`; all of it together stays under 100 MB."""
        self._capture.add_metadata(key, value, is_json=False)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a JSON value, given as text, to `profiler_metadata.json`."""
        self._capture.add_metadata(key, value, is_json=True)

    @property
    def results(self) -> list[str]:
        """Return the result directories taken so far, one for each start or cycle."""
        return list(self._capture.results)

    def _begin(self) -> None:
        if not self._capture.started:
            self._capture.start()

    def __exit__(self, *_: object) -> None:
        if self._capture.started:
            self._capture.stop()

    def __del__(self) -> None:
        capture = getattr(self, "_capture", None)
        if capture is not None and capture.started:
            capture.stop()
