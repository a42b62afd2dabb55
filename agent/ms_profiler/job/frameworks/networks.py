"""Store the structure of each network once: its modules and the sizes of its parameters.

Each network has a title, for example `Net`. If two networks of this class exist at the same time, the title of the
second is `Net#2`. A module may make or replace its parameters in its first call. So ms-profiler reads the parameters of
a network after this call, between two steps.
"""

import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from ms_profiler import paths
from ms_profiler.job.frameworks import side_file, trees
from ms_profiler.store import layout

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: Largest number of networks that a process stores, and of different titles `Net`, `Net#2`, ... for one class. Without
#: this limit, a script that makes a new network in each step would fill the disk.
MOST: Final = 64
#: a function that returns the number of elements and the number of bytes of a parameter. It returns None if code of the
#: script would have to run for that.
Sizes = Callable[[Any], tuple[int, int] | None]


class Titles:
    """Name each network after the class of its outermost module; number networks of a class that exist together."""

    def __init__(self) -> None:
        self._taken: dict[str, list[weakref.ref[Any]]] = {}

    def of(self, root: Any, numbered: bool) -> str:
        """Return the title of a network.

        Args:
            root: outermost module of the network.
            numbered: whether the title may have a number; if not, the title is the name of the class.
        """
        kind = trees.class_name(root)
        if not numbered:
            return kind
        taken = self._taken.setdefault(kind, [])
        alive = [held() for held in taken]
        place = next((place for place, item in enumerate(alive) if item is root), None)
        if place is None:
            place = next((place for place, item in enumerate(alive) if item is None), len(taken))
            if place == MOST:
                return kind
            taken[place : place + 1] = [weakref.ref(root)]
        return f"{kind}#{place + 1}" if place else kind


class Networks:
    """Store the structure of the networks of this process.

    Args:
        host: the session, which stores the structure.
        table: name of the attribute in which a module holds its inner modules.
        parameters: name of the attribute in which a module holds its parameters.
        sizes: a function that returns the number of elements and the number of bytes of a parameter.
        left_out: a function that gets a class and returns whether modules of this class are not part of a network. For
            example, optimizers of MindSpore are not.
    """

    def __init__(
        self,
        host: "Host",
        table: str,
        parameters: str,
        sizes: Sizes,
        left_out: Callable[[type], bool] = lambda kind: False,
    ) -> None:
        self.host = host
        self._table, self._parameters, self._sizes, self._left_out = table, parameters, sizes, left_out
        self._waiting: list[tuple[str, weakref.ref[Any]]] = []
        self._known: list[tuple[str, weakref.ref[Any]]] = []
        self._folder = ""

    def has_parameters(self, root: Any) -> bool:
        """Return whether a module or any module in it has parameters."""
        return bool(self._own(root)) or any(True for _ in self._children(root))

    def called(self, title: str, root: Any) -> None:
        """Note that a network has been called; `stepped` stores the network later, between two steps."""
        if len(self._known) < MOST and self.has_parameters(root):
            entry = title, weakref.ref(root)
            self._known.append(entry)
            self._waiting.append(entry)

    def alive(self) -> Iterator[tuple[str, Any]]:
        """Yield the outermost modules that were called and still exist, with their titles."""
        for title, held in self._known:
            if (root := held()) is not None:
                yield title, root

    def stepped(self, count: int) -> tuple[int, bool]:
        """Store the new networks; return the step after which to call this again, and whether there were new networks.

        Args:
            count: the number of steps so far. This function runs after the steps 1, 2, 4, 8 and so on.
        """
        return max(2 * count, 1), self.write_waiting()

    def end(self) -> None:
        """Store the networks that were called since the last call of `stepped`."""
        self.write_waiting()

    def write_waiting(self) -> bool:
        """Write the networks that the current result lacks; return whether there were any."""
        if not self._known or self.host.home is None:
            return False
        folder = self.host.home.folder
        if not paths.isdir(folder):  # the folder is missing in a fork child that records nothing
            return False
        if folder != self._folder:
            self._waiting, self._folder = list(self._known), folder
        waiting, self._waiting = self._waiting, []
        for title, held in waiting:
            root = held()
            if root is not None:
                self._write(folder, {"title": title, **self._described(root)})
        return bool(waiting)

    def _own(self, module: Any) -> dict[str, Any]:
        return trees.held_in(module, self._parameters)

    def _children(self, module: Any) -> Iterator[tuple[str, Any]]:
        for name, inner in trees.children(module, self._table):
            if not self._left_out(type(inner)):
                yield name, inner

    def _described(self, root: Any) -> dict[str, Any]:
        """Return the structure of a network as a JSON object.

        The object has two lists. `parameters` has the numbers of elements and bytes of each parameter, null if unknown.
        `modules` has an item for each module: its class, the indexes of its parameters in `parameters`, and the indexes
        of its inner modules by name. A parameter or module that several modules share has one item.
        """
        places, items = {id(root): 0}, [root]
        numbers: dict[int, int] = {}
        sizes: list[tuple[int, int] | None] = []
        modules = []
        for item in items:  # the body adds inner modules to `items`, and the loop continues with them
            own, held = [], {}
            for name, inner in self._children(item):
                if id(inner) not in places:
                    places[id(inner)] = len(items)
                    items.append(inner)
                held[name] = places[id(inner)]
            for parameter in self._own(item).values():
                if parameter is None:
                    continue
                if id(parameter) not in numbers:
                    numbers[id(parameter)] = len(sizes)
                    sizes.append(self._sizes(parameter))
                own.append(numbers[id(parameter)])
            modules.append([trees.class_name(item), own, held])
        return {"parameters": sizes, "modules": modules}

    def _write(self, folder: str, content: dict[str, Any]) -> None:
        for index in self._free(folder):
            try:
                side_file.write(self.host, layout.network_path(folder, index), content)
            except FileExistsError:
                continue
            return

    def _free(self, folder: str) -> Iterator[int]:
        yield from range(len(layout.networks(folder)), 2 * MOST)
