"""Build a tree of the functions of sampled threads.

A place of the tree is a function together with the chain of its callers. The outermost place of each chain is a thread.
So the path from a thread to a place is a stack. If a function has the same callers, its different lines share one
place.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import polars as pl

#: parts of file paths that mark code of libraries
_LIBRARIES: Final = ("/site-packages/", "/dist-packages/", "/lib/python", "<frozen ", "<string>", "<__array_function__")


@dataclass(frozen=True)
class Function:
    """A function, or a thread.

    Attributes:
        name: the name of the function or thread.
        file: the path of its file; empty for a thread.
        line: the line in which the function begins; for a thread, its number in the operating system, 0 if unknown.
    """

    name: str
    file: str
    line: int

    @property
    def label(self) -> str:
        """Return the name of the function, with file and line."""
        if self.file:
            return f"{self.name} ({os.path.basename(self.file)}:{self.line})"
        return f"{self.name or 'thread'} {self.line or ''}".strip()

    @property
    def own(self) -> bool:
        """Return whether the function is code of the script, and not of a library."""
        return bool(self.file) and not any(part in self.file for part in _LIBRARIES)


class Tree:
    """The tree of the functions of one process.

    Args:
        frames: the frames of the process, with the columns of `tables.FRAMES`.
        names: texts by number.
    """

    def __init__(self, frames: pl.DataFrame, names: pl.Series) -> None:
        texts = names.to_list()
        self.functions: list[Function] = []
        #: node of a frame -> the frame's place in the tree
        self.places: dict[int, int] = {}
        #: node of a frame -> the frame's line
        self.lines: dict[int, int] = {}
        #: place -> place of the caller, -1 for a thread
        self.callers: list[int] = []
        known: dict[tuple[int, Function], int] = {}
        columns = ("node", "caller", "name", "file", "first_line", "line", "native_tid")
        # callers come before their callees
        for node, caller, name, file, first, line, tid in frames.select(columns).sort("node").iter_rows():
            function = Function(texts[name], texts[file] if caller else "", first if caller else tid)
            around = self.places.get(caller, -1)
            if caller and around < 0:
                continue  # a damaged store may lack the caller
            place = known.setdefault((around, function), len(self.functions))
            if place == len(self.functions):
                self.functions.append(function)
                self.callers.append(around)
            self.places[node], self.lines[node] = place, line

    def outwards(self, place: int) -> Iterator[int]:
        """Yield a place of the tree and all its callers, from the place outwards; the thread comes last."""
        while place >= 0:
            yield place
            place = self.callers[place]

    def path(self, place: int) -> list[int]:
        """Return the places on the path from the thread to a place, the thread first."""
        return [*self.outwards(place)][::-1]

    @cached_property
    def threads(self) -> dict[int, int]:
        """Return for each place the place of its thread."""
        found: dict[int, int] = {}
        for place, caller in enumerate(self.callers):
            found[place] = place if caller < 0 else found[caller]
        return found

    def own(self, node: int, callers: dict[int, int]) -> int:
        """Return the innermost node of the script's own code among a node and its callers; 0 if there is none.

        Args:
            node: a node of `tables.FRAMES`.
            callers: node -> node of the caller.
        """
        while node and not self.functions[self.places[node]].own:
            node = callers.get(node, 0)
            if node not in self.places:
                return 0
        return node
