"""Prepare the next item of an iterable on another thread while the caller uses the current item."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

Item = TypeVar("Item")

_END: Final = object()


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items in order, while another thread makes the next item.

    Args:
        items: the items; no other code may use this iterable.
    """
    iterator = iter(items)
    with ThreadPoolExecutor(1, "ms-profiler-ahead") as thread:
        coming = thread.submit(next, iterator, _END)
        while (item := coming.result()) is not _END:
            coming = thread.submit(next, iterator, _END)
            yield item  # type: ignore[misc] # an object that is no item is the end
