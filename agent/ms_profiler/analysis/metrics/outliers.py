"""Find the module that takes far longer than similar ones: those beside it, or at its place in other blocks."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import polars as pl

#: a module is an outlier if it takes at least this many times as long as each similar module
OUTLIER: Final = 2.0
#: an outlier is found only if there are at least this many similar modules
OTHERS: Final = 2
#: an outlier is left out if an outlier inside it has more than this part of what it takes longer than similar modules,
#: and more than this part of its time
INSIDE: Final = 0.75
MOST: Final = 0.5


@dataclass(frozen=True)
class Outlier:
    """A module that takes far longer than similar modules.

    Modules are similar in either of two cases:

    - The same module contains them, and the names of their own inner modules are the same.
    - Their paths differ only in the numbers of blocks around them, such as `layers.0.mlp` and `layers.1.mlp`. The names
      of the inner modules are the same, those of the blocks, too.

    Attributes:
        module: the path of the module.
        share: its share of the whole, inner modules included.
        other: the largest share of a similar module.
        place: the path that similar modules share, with `*` for the number of a block; empty if they are beside it.
    """

    module: str
    share: float
    other: float
    place: str = ""

    @property
    def excess(self) -> float:
        """Return how much larger the share of the module is than that of each similar one."""
        return self.share - self.other


def outlier(tree: pl.DataFrame, whole_ns: int, least: float, excess: float) -> Outlier | None:
    """Return the largest module that takes far longer than similar modules; None if there is none.

    Args:
        tree: the tree of modules, from `module_tree.rows`.
        whole_ns: the time of which the shares are computed.
        least: smallest share of the module.
        excess: the share of the module must be larger than that of each similar one by at least this.
    """
    times = dict(tree.select("module", "total_ns").iter_rows())
    found = []
    for place, modules in _similar(times):
        first, *others = sorted(modules, key=lambda module: (-times[module], module))
        if len(others) >= OTHERS and times[first] >= OUTLIER * times[others[0]]:
            share, other = (times[module] / max(whole_ns, 1) for module in (first, others[0]))
            found.append(Outlier(first, share, other, place))
    found = [each for each in found if each.share >= least and each.excess >= excess]
    inner = [each for each in found if not any(_explains(other, each) for other in found)]
    return max(inner, key=lambda each: (each.share, not each.place, each.module), default=None)


def _similar(times: dict[str, int]) -> Iterator[tuple[str, list[str]]]:
    """Yield the place of similar modules, as in `Outlier`, and their paths."""
    names: dict[str, set[str]] = {}
    for module in times:
        around, _, name = module.rpartition(".")
        names.setdefault(around, set()).add(name)
    inner = {module: frozenset(own) for module, own in names.items()}
    groups: dict[tuple[object, ...], list[str]] = {}
    for module in times:
        around, _, name = module.rpartition(".")
        own = inner.get(module, frozenset())
        if around and own:
            groups.setdefault(("", around, own), []).append(module)
        parts = around.split(".")
        words = ["*" if word.isdigit() else word for word in parts]
        # in a sequence, nothing but the number says what a module without inner modules is
        if "*" in words and (own or not name.isdigit()):
            blocks = [inner[".".join(parts[:end])] for end in range(words.index("*") + 1, len(parts) + 1)]
            groups.setdefault((".".join([*words, name]), own, *blocks), []).append(module)
    for (place, *_), modules in groups.items():
        yield str(place), modules


def _explains(one: Outlier, outer: Outlier) -> bool:
    much = one.excess > INSIDE * outer.excess and one.share > MOST * outer.share
    return much and one.module.startswith(f"{outer.module}.")
