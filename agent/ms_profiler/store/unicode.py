"""Replace halves of surrogate pairs, which JSON can hold and UTF-8 cannot; other programs write them as `\\ud800`."""

from typing import Any


def whole(value: Any) -> Any:
    """Return a JSON value in which "?" replaces every half of a surrogate pair, as in the recorder.

    Args:
        value: text, number, list or object.
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [whole(item) for item in value]
    if isinstance(value, dict):
        return {whole(key): whole(item) for key, item in value.items()}
    return value
