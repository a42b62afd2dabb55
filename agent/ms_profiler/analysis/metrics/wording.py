"""Join words to a part of a sentence."""

from collections.abc import Sequence


def series(words: Sequence[str]) -> str:
    """Return words as a series, such as `a, b and c`; there is at least one word."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def some(words: Sequence[str], count: int) -> str:
    """Return the words that are shown, and how many of all `count` words are not."""
    return ", ".join(words) + (f" and {count - len(words)} more" if count > len(words) else "")
