"""Read the structures of networks from the store: their modules and the sizes of their parameters.

`job.frameworks.networks` writes them while the job runs.
"""

from dataclasses import dataclass

from ms_profiler.analysis.readers import side_files
from ms_profiler.store import layout
from ms_profiler.store.reader import ReadCounts


@dataclass(frozen=True)
class Network:
    """The structure of a network.

    Attributes:
        title: the first part of the paths of its modules; empty if the paths begin below the outermost module.
        sizes: elements and bytes of each parameter; None if unknown.
        modules: a pair for each module, the outermost module first. A module's number is its place in this tuple. The
            pair has the numbers of the module's own parameters (places in `sizes`), and a dictionary: name of a module
            directly inside -> number of that module.
    """

    title: str
    sizes: tuple[tuple[int, int] | None, ...]
    modules: tuple[tuple[tuple[int, ...], dict[str, int]], ...]

    def find(self, path: list[str]) -> int | None:
        """Return the number of the module at a path below the outermost module; None without such a module."""
        found = 0
        for name in path:
            inner = self._inside(found, name)
            if inner is None:
                return None
            found = inner
        return found

    def _inside(self, module: int, name: str) -> int | None:
        seen: set[int] = set()
        # paths lack the names of wrappers, such as _orig_mod, so look inside the wrappers, too
        while module not in seen:
            seen.add(module)
            held = self.modules[module][1]
            if name in held:
                return held[name]
            module = next((inner for attribute, inner in held.items() if attribute.startswith("_")), module)
        return None

    def parameters(self, module: int) -> tuple[int, int] | None:
        """Return the elements and bytes of all parameters inside a module, each counted once; None if unknown."""
        seen, waiting = {module}, [module]
        own: set[int] = set()
        while waiting:
            numbers, held = self.modules[waiting.pop()]
            own.update(numbers)
            waiting += [inner for inner in held.values() if inner not in seen]
            seen.update(held.values())
        sizes = [self.sizes[number] for number in own]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            return None
        return sum(elements for elements, _ in known), sum(size for _, size in known)


def of_run(directory: str, process: int, counts: ReadCounts) -> list[Network]:
    """Return the networks that a process called; if it called none, the networks of all processes.

    Args:
        directory: the directory of the result.
        process: the pid of the process.
        counts: receives the names of unreadable files.
    """
    own = read(layout.process_dir(directory, process), counts)
    return own or [network for folder in layout.process_dirs(directory) for network in read(folder, counts)]


def read(folder: str, counts: ReadCounts) -> list[Network]:
    """Return the networks that a process called, in the order of the calls.

    Args:
        folder: the folder of the process.
        counts: receives the names of unreadable files.
    """
    found = []
    for path in layout.networks(folder):
        try:
            with open(path, "rb") as stream:
                found.append(parse(stream.read()))
        except side_files.DAMAGE as error:
            counts.damaged_files.append((path.rpartition("/")[2], str(error) or "cannot be read"))
    return found


def parse(content: bytes) -> Network:
    """Parse the stored structure of a network.

    Raises:
        ValueError: the structure is damaged.
    """
    stored = side_files.parsed(content)
    sizes = tuple(None if size is None else (int(size[0]), int(size[1])) for size in stored["parameters"])
    modules = tuple((tuple(map(int, own)), dict(held)) for _, own, held in stored["modules"])
    numbers = [number for own, _ in modules for number in own]
    places = [place for _, held in modules for place in held.values()]
    if not modules or any(not 0 <= number < len(sizes) for number in numbers):
        raise ValueError("names a parameter that it does not have")
    if any(not 0 <= place < len(modules) for place in places):
        raise ValueError("names a module that it does not have")
    return Network(str(stored["title"]), sizes, modules)
