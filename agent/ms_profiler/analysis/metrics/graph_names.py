"""Match the kernels of a run with the operators of its compiled graphs.

A kernel is named `Default/fc-Dense/MatMul-op41`. MindSpore numbers operators of the same name in the order of the
graph's description. In each description, the numbers begin with 0. The numbers of kernels, however, continue from graph
to graph. So if the first graph has k operators of a name, operator n of this name in the second graph is kernel n + k.

MindSpore expands some operators to other primitives, as in `Expand/_MatMulExt/BatchMatMul-op7`. It numbers the kernels
of these primitives in the same order, separately for each pair of primitives. The names of these kernels lack the
scope.

None of this is documented. So a match counts only if the kernels have exactly the expected numbers, and exactly the
shapes that the graph has. That held in every examined network.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from ms_profiler.analysis.metrics import graph_owners
from ms_profiler.analysis.metrics.graph_owners import Owner
from ms_profiler.analysis.readers.graphs import Graph

_NUMBERED: Final = re.compile(r"(.*)-op(\d+)")
_EXPANDED: Final = re.compile(r"Expand/_(\w+)/[\w-]+")
#: largest number of kernels of one primitive that come from the expansion of one operator
_SEVERAL: Final = 8

#: full name of a kernel -> index of its graph, and name of its node in the graph
Places = dict[str, tuple[int, str]]


def owners(
    graphs: list[Graph], seen: Iterable[str], ran: dict[str, set[str]], called: Collection[str]
) -> dict[str, Owner]:
    """Return the owner of each kernel, by the full name of the kernel. The owner is the cell and the part of a step.

    Args:
        graphs: the graphs that a process compiled, in the order of compilation.
        seen: the full names of all kernels of the process.
        ran: full name of a kernel -> the shapes of its operands in each of its runs, such as `4,12;12`. Not all
            kernels are included.
    """
    places = _places(graphs, set(seen))
    wrong = {
        (number, _family(name))
        for name, (number, node) in places.items()
        if _differs(graphs[number], node, ran.get(name), name.startswith("Expand/"))
    }
    known = [_rooted(graph_owners.owners(graph), graph, called) if graph.whole else {} for graph in graphs]
    found = {}
    for name, (number, node) in places.items():
        if (number, _family(name)) not in wrong and (owner := known[number].get(node)):
            found[name] = _titled(owner, graphs[number].title)
    return found


def _rooted(owners: dict[str, Owner], graph: Graph, called: Collection[str]) -> dict[str, Owner]:
    """Put the outermost cell's name before the owners' modules, because parameters of a compiled function lack it."""
    modules = {owner.module for owner in owners.values() if owner.module}
    if graph.holders or not modules or not modules.isdisjoint(called):
        return owners
    roots = [{path.removesuffix(f".{module}") for path in called if path.endswith(f".{module}")} for module in modules]
    around = set.intersection(*roots)
    if len(around) > 1:  # modules of these names belong to several networks, so the module stays unknown
        return {name: replace(owner, module=None) for name, owner in owners.items()}
    root = "".join(f"{path}." for path in around)
    return {name: replace(owner, module=owner.module and f"{root}{owner.module}") for name, owner in owners.items()}


def _titled(owner: Owner, title: str) -> Owner:
    """Put the network's title before the module of an owner, except for the first network of its class."""
    if "#" not in title or owner.module is None:
        return owner
    return replace(owner, module=f"{title}.{owner.module}".removesuffix("."))


def _places(graphs: list[Graph], seen: set[str]) -> Places:
    numbers: dict[str, set[int]] = defaultdict(set)
    for name in seen:
        if matched := _NUMBERED.fullmatch(name):
            numbers[matched[1]].add(int(matched[2]))
    found: Places = {}
    whole = next((number for number, graph in enumerate(graphs) if not graph.whole), len(graphs))
    # a graph that is not whole calls another graph, whose names are unknown. So the numbers of kernels are known only
    # for the graphs before the first graph that is not whole
    graphs = graphs[:whole]
    begun: Counter[str] = Counter()
    families = [_families(graph) for graph in graphs]
    for number, family in enumerate(families):
        for prefix, nodes in family.items():
            first = begun[prefix]
            begun[prefix] += len(nodes)
            expected = range(first, first + len(nodes))
            if numbers[prefix].issuperset(expected):
                found |= {f"{prefix}-op{first + place}": (number, node) for place, node in enumerate(nodes)}
    if whole == len(families) or not families:
        for prefix, known in list(numbers.items()):
            if (matched := _EXPANDED.fullmatch(prefix)) and known:
                found |= _expanded(prefix, known, [_of_type(graph, matched[1]) for graph in graphs])
    # if there are more kernels than operators, the process compiled further graphs, which are missing in `graphs`
    more = {prefix for prefix, total in begun.items() if numbers[prefix] and max(numbers[prefix]) >= total}
    return {name: place for name, place in found.items() if _family(name) not in more}


def _expanded(prefix: str, known: set[int], nodes: list[list[str]]) -> Places:
    """Return the graph and the node of each kernel to which MindSpore expanded the operators of one type.

    Args:
        prefix: the name of these kernels without the number.
        known: the numbers of these kernels.
        nodes: for each graph, the names of the operators of this type.
    """
    total = sum(map(len, nodes))
    fitting = []
    for several in range(1, _SEVERAL + 1):
        if max(known) >= total * several:
            continue
        found: Places = {}
        first, complete = 0, True
        for number, names in enumerate(nodes):
            expected = range(first, first + len(names) * several)
            first = expected.stop
            complete &= known.issuperset(expected) or known.isdisjoint(expected)
            found |= {
                f"{prefix}-op{expected.start + at}": (number, names[at // several]) for at in range(len(expected))
            }
        if complete:
            fitting.append({name: place for name, place in found.items() if int(name.rpartition("-op")[2]) in known})
    return fitting[0] if len(fitting) == 1 else {}


def _families(graph: Graph) -> dict[str, list[str]]:
    """Return the names of a graph's nodes, grouped by full name without number; each group is sorted by the number."""
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for name, node in graph.nodes.items():
        if matched := _NUMBERED.fullmatch(node.full_name):
            found[matched[1]].append((int(matched[2]), name))
    return {prefix: [name for _, name in sorted(nodes)] for prefix, nodes in found.items()}


def _of_type(graph: Graph, kind: str) -> list[str]:
    return [name for name, node in graph.nodes.items() if node.type == kind]


def _family(name: str) -> str:
    return name.rpartition("-op")[0]


def _differs(graph: Graph, name: str, ran: set[str] | None, expanded: bool) -> bool:
    """Return whether the shapes of a kernel's operands in the run differ from the shapes of its node in the graph."""
    if not ran:
        return False
    expected = {shape for shape in graph.shapes(graph.nodes[name]) if shape and "-1" not in shape}
    if expanded:  # an operator may expand to several kernels, and some of them read what the others wrote
        return bool(expected) and all(expected.isdisjoint(shapes.split(";")) for shapes in ran)
    return any(not expected.issubset(shapes.split(";")) for shapes in ran)
