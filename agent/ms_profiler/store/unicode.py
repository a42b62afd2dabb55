"""Replace lone surrogates: JSON files of other programs may contain them (as `\\ud800`), but UTF-8 has none."""

from collections.abc import Callable
from typing import Any


def whole(value: Any) -> Any:
    """Return a JSON value in which "?" replaces every lone surrogate; the recorder does the same with names.

    Args:
        value: text, number, list or object.
    """
    return changed(value, _whole)


def changed(value: Any, change: Callable[[str], str]) -> Any:
    """Return a copy of a JSON value in which every text is replaced, keys included; the value may be nested deeply.

    Args:
        value: text, number, list or object.
        change: a function that returns the replacement of a text.
    """
    root = [value]
    waiting: list[Any] = [root]
    while waiting:
        holder = waiting.pop()
        for place, item in enumerate(holder) if isinstance(holder, list) else [*holder.items()]:
            if isinstance(item, str):
                holder[place] = change(item)
            elif isinstance(item, dict):
                holder[place] = {change(key): held for key, held in item.items()}
                waiting.append(holder[place])
            elif isinstance(item, list):
                holder[place] = item.copy()
                waiting.append(holder[place])
    return root[0]


def _whole(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
