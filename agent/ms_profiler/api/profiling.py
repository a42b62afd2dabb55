"""The common base class of `profile` and the older `Profiler`."""

from ms_profiler.api.capture import Capture


class Profiling:
    """Adds metadata, returns results, and stops the recording when a `with` block ends or the object is deleted."""

    _capture: Capture

    def add_metadata(self, key: str, value: str) -> None:
        """Add a text to the file `profiler_metadata.json` of the result; the whole file must stay below 100 MB."""
        self._capture.add_metadata(key, value, is_json=False)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a JSON value, given as text, to the file `profiler_metadata.json` of the result."""
        self._capture.add_metadata(key, value, is_json=True)

    @property
    def results(self) -> list[str]:
        """Return the result directories made so far: one for each start or, with a schedule, for each cycle."""
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
