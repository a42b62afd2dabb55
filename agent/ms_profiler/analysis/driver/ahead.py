"""Prepare the next item on another thread while the current item is used."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

Item = TypeVar("Item")

_END: Final = object()


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """Yield items; another thread makes the next item meanwhile.

    Args:
        items: used by no other code.
    """
    iterator = iter(items)
    with ThreadPoolExecutor(1, "ms-profiler-ahead") as thread:
        coming = thread.submit(next, iterator, _END)
        while (item := coming.result()) is not _END:
            coming = thread.submit(next, iterator, _END)
            yield item  # type: ignore[misc] # an object that is no item is the end
