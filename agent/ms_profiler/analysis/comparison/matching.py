"""Match the modules of two runs: by name, or if they were renamed, by their inner modules, class or operators."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ms_profiler.analysis.comparison.digest import Digest
from ms_profiler.analysis.metrics.module_paths import prefixes

NAME: Final = "name"
STRUCTURE: Final = "structure"
CLASS: Final = "class"
OPERATORS: Final = "operators"
ORDER: Final = "order"
#: two modules match only if both have at least this share of all their inner modules (or operators)
ALIKE: Final = 0.5
#: the share that replaces `ALIKE` for modules whose parents do not match
ELSEWHERE: Final = 0.8


@dataclass(frozen=True)
class Match:
    """A module of the first run with its counterpart in the second run.

    Attributes:
        before: path of the module in the first run; None if only the second run has it.
        after: path of the module in the second run; None if only the first run has it.
        how: how it was matched: "name", "structure", "class", "operators", "order"; empty if only one run has it.
    """

    before: str | None
    after: str | None
    how: str


@dataclass
class _Node:
    path: str
    kind: str
    order: int
    inside: frozenset[str]  # paths of the modules inside, relative to this one
    runs: frozenset[str]  # operators of this module and of all modules inside
    children: list["_Node"]

    @property
    def last(self) -> str:
        return self.path.rpartition(".")[2]


def match(before: Digest, after: Digest) -> list[Match]:
    """Return the modules of two runs. A module that both runs have appears once.

    A module is compared with the children of its parent's counterpart. It matches the child with the same name. If
    there is none, it matches a child that has inner modules of the same names, the same class, or the same operators.
    If several children match equally well, the order of their first calls decides. If no child matches, the module may
    have been wrapped or unwrapped. It then matches any module of the second run with nearly the same inner modules.

    Args:
        before: the first run.
        after: the second run.
    """
    first, second = _trees(before), _trees(after)
    found: dict[str, Match] = {}
    _pair(first, second, found)
    taken = {each.after for each in found.values()}
    for node in _all(first):
        if node.path in found or not node.inside:
            continue
        free = [other for other in _all(second) if other.path not in taken and other.inside]
        best = max(free, key=lambda other: _common(node.inside, other.inside), default=None)
        if best is not None and _common(node.inside, best.inside) >= ELSEWHERE:
            found[node.path] = Match(node.path, best.path, STRUCTURE)
            _pair(node.children, best.children, found)
            taken = {each.after for each in found.values()}
    gone = [Match(node.path, None, "") for node in _all(first) if node.path not in found]
    new = [Match(None, node.path, "") for node in _all(second) if node.path not in taken]
    return [*found.values(), *gone, *new]


def _pair(first: Sequence[_Node], second: Sequence[_Node], found: dict[str, Match]) -> None:
    """Match the children of two matched modules, and the modules inside these children."""
    names = {node.last: node for node in second}
    rest = []
    for node in first:
        other = names.pop(node.last, None)
        if other is None:
            rest.append(node)
        else:
            _take(node, other, NAME, found)
    free = sorted(names.values(), key=lambda node: node.order)
    for node in sorted(rest, key=lambda node: node.order):
        scored = [(_score(node, other), -place) for place, other in enumerate(free)]
        (score, how), place = max(scored, default=((0.0, ""), 0))
        if score < ALIKE:
            continue
        ties = sum(each[0] == (score, how) for each in scored)
        _take(node, free.pop(-place), ORDER if ties > 1 else how, found)


def _take(node: _Node, other: _Node, how: str, found: dict[str, Match]) -> None:
    found[node.path] = Match(node.path, other.path, how)
    _pair(node.children, other.children, found)


def _score(node: _Node, other: _Node) -> tuple[float, str]:
    """Return how well two modules match, from 0 to 1, and the criterion by which they match, such as `CLASS`."""
    if node.kind and other.kind and node.kind != other.kind:
        return 0.0, ""
    if node.inside or other.inside:
        return _common(node.inside, other.inside), STRUCTURE
    if node.kind and node.kind == other.kind:
        return 1.0, CLASS
    return _common(node.runs, other.runs), OPERATORS


def _common(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / max(len(first | second), 1)


def _trees(run: Digest) -> list[_Node]:
    """Return the outermost modules of a run."""
    known = {module.path: module for module in run.modules}
    ran: dict[str, set[str]] = {path: set() for path in known}
    for cell in run.cells:
        for path in prefixes(cell.module):
            if path in ran and cell.what:
                ran[path].add(cell.what)
    nodes = {
        path: _Node(path, module.kind, module.order, frozenset(), frozenset(ran[path]), [])
        for path, module in known.items()
    }
    inside: dict[str, set[str]] = {path: set() for path in nodes}
    roots: list[_Node] = []
    for path in sorted(nodes):
        *around, _ = prefixes(path)
        for outer in around:
            if outer in inside:
                inside[outer].add(path[len(outer) + 1 :])
        parent = nodes.get(around[-1]) if around else None
        (roots if parent is None else parent.children).append(nodes[path])
    for path, node in nodes.items():
        node.inside = frozenset(inside[path])
    return roots


def _all(nodes: Iterable[_Node]) -> list[_Node]:
    """Return some modules and all modules inside them; a module comes before the modules inside it."""
    found = []
    for node in nodes:
        found += [node, *_all(node.children)]
    return found
