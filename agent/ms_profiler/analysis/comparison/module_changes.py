"""Find the modules that explain a change: the innermost ones that have most of it."""

from typing import Final

#: inner modules, and not the module around them, are the cause if they have at least this share of the outer change
INSIDE: Final = 0.7


class Tree:
    """A tree of modules with the change of their times.

    Args:
        more: path of a module -> change of its time in ns, without the modules inside it.
    """

    def __init__(self, more: dict[str, int]) -> None:
        self.own = more
        self.children: dict[str, list[str]] = {}
        self.inside: dict[str, list[str]] = {}
        self.roots: list[str] = []
        for path in sorted(more):
            parts = path.split(".")
            for length in range(1, len(parts) + 1):
                outer = ".".join(parts[:length])
                self.inside.setdefault(outer, []).append(path)
                around = ".".join(parts[: length - 1])
                below = self.children.setdefault(around, []) if around else self.roots
                if outer not in below:
                    below.append(outer)

    def change(self, path: str) -> int:
        """Return the change of a module and of all modules in it."""
        return sum(self.own[name] for name in self.inside[path])

    def explained(self, least: float) -> list[tuple[str, list[str]]]:
        """Return the modules that explain the change, each with the inner modules whose change it includes.

        Args:
            least: smallest change that is shown, ns.
        """
        return [each for root in self.roots for each in self._explained(root, least)]

    def _explained(self, path: str, least: float) -> list[tuple[str, list[str]]]:
        children = self.children.get(path, [])
        large = [child for child in children if abs(self.change(child)) >= least]
        whole = self.change(path)
        few = len(large) == 1 or 2 * len(large) <= len(children)
        most = abs(sum(self.change(child) for child in large)) >= INSIDE * abs(whole)
        opposed = len({self.change(child) > 0 for child in large}) > 1
        if not large or not (opposed or (few and most)):
            return [(path, self.inside[path])]
        found = [each for child in large for each in self._explained(child, least)]
        combined = {name for _, names in found for name in names}
        rest = [name for name in self.inside[path] if name not in combined]
        return [*found, (path, rest)] if rest else found
