"""Find the cell of each operator of a compiled graph, by its parameters and by the operators around it.

A cell is a module of MindSpore. If several cells are equal, MindSpore may give the operators of all these cells the
name of the first cell. So the name alone proves nothing. These rules are safe:

1. An operator that uses a parameter belongs to the cell that holds the parameter, or to a cell around it. The class in
the operator's scope decides between these cells.
2. An operator between two operators of the same call of a cell is inside that cell, because a call takes its inputs
when it begins and gives its outputs when it ends. If the cell contains exactly one cell of the class in the operator's
scope, the operator belongs to that inner cell.
3. An operator between two cells belongs to the first cell if every cell of the first cell's class is followed by the
same number of operators of this type. It belongs to the second cell if every cell of the second cell's class is
preceded by the same number of operators of this type. If both are true, this rule does not decide. Example: in
`block act block act block act`, each `act` belongs to the block before it.
4. An operator ahead of all uses of parameters belongs to the cell in its scope, if this cell has no parameters and no
other cell has its class.
5. A gradient belongs to an operator if it reads the operands of the operator, computes the gradient of the operator's
parameter, or reads the gradient of the operator's result. If several operators remain, the gradient belongs to the cell
around them.

If no rule covers an operator, the operator has no owner.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Final

from ms_profiler.analysis.metrics.dataflow import PASS_THROUGH, Flow, Operator
from ms_profiler.analysis.metrics.graph_gradients import Gradients
from ms_profiler.analysis.metrics.module_paths import common, inside, prefixes
from ms_profiler.analysis.metrics.scopes import Part
from ms_profiler.analysis.readers.graphs import Graph

#: operators of Python's syntax, such as `+`. MindSpore parses each sign only once, so all uses of the sign have the
#: scope of its first use, and the scope does not tell the module
_SIGNS: Final = {
    *("Add", "AddExt", "Sub", "SubExt", "Mul", "Muls", "Div", "Divs", "RealDiv", "FloorDiv", "Mod", "Pow", "Neg"),
    *("MatMul", "MatMulExt", "BatchMatMul", "Less", "Greater", "Equal", "NotEqual", "LessEqual", "GreaterEqual"),
}


@dataclass(frozen=True, slots=True)
class Owner:
    """The cell (module of MindSpore) to which an operator belongs, and the part of a step.

    Attributes:
        module: path of the owner: attribute names from the compiled cell to the owner, joined by dots; empty for the
            compiled cell itself, None if unknown.
        named: whether the scope in the operator's name refers to this module.
        part: the part of a training step.
    """

    module: str | None
    named: bool
    part: Part


def owners(graph: Graph) -> dict[str, Owner]:
    """Return the owner of each operator of a graph by the name of its node: its cell (module) and part of a step."""
    flow = Flow(graph)
    cells = _Cells(graph, flow)
    found: dict[str, str] = {}
    for part in (Part.FORWARD, Part.RECOMPUTE):
        _Pass(flow, cells, part).bind(found)
    Gradients(flow, found).bind()
    for name, parameter in flow.written.items():
        if (module := cells.holder(parameter)) is not None:
            found[name] = module
    # if a graph has no gradients, it may belong to any part of a step
    trains = any(operator.part == Part.BACKWARD for operator in flow.operators.values())
    result = {
        name: Owner(
            found.get(name),
            found.get(name) == operator.path,
            operator.part if trains or operator.part == Part.OPTIMIZER else _alone(operator),
        )
        for name, operator in flow.operators.items()
    }
    for name, weights in flow.prepared.items():
        around = common(filter(None, map(cells.holder, weights)))
        result[name] = Owner(around, False, Part.FORWARD if trains else Part.UNKNOWN)
    return result


def _alone(operator: Operator) -> Part:
    """Return the part of an operator of a graph without gradients, where nothing is recomputed."""
    return Part.FORWARD if operator.scope.part == Part.RECOMPUTE else operator.scope.part


class _Cells:
    """The cells (modules of MindSpore) of a network, as far as they are known."""

    def __init__(self, graph: Graph, flow: Flow) -> None:
        self.kinds = {path: kind for path, (kind, _) in graph.cells.items()}
        held: dict[str, list[str]] = defaultdict(list)
        for path, (_, own) in graph.cells.items():
            for name in own:
                held[name].append(path)
        held |= graph.holders
        # a training cell lists the parameters of all cells inside, in addition to the cells that hold them
        self._held = {
            name: [path for path in paths if not any(other != path and inside(other, path) for other in paths)]
            for name, paths in held.items()
        }
        self._named = not self._held
        used = {weight for operator in flow.operators.values() for weight in operator.weights}
        self.modules = {prefix for weight in used for path in self.holders(weight) for prefix in prefixes(path)}
        for operator in flow.operators.values():
            if operator.scope.kind and operator.path:
                self.kinds.setdefault(operator.path, operator.scope.kind)

    def holders(self, parameter: str) -> list[str]:
        """Return the paths of the cells that hold a parameter; several if cells share it."""
        if self._named:
            module, dot, _ = parameter.rpartition(".")
            return [module] if dot else []
        return self._held.get(parameter, [])

    def holder(self, parameter: str) -> str | None:
        """Return the innermost module around all cells that hold a parameter; None if no known cell holds it."""
        return common(self.holders(parameter))

    def of_kind(self, kind: str | None, module: str) -> list[str]:
        """Return the cells in a module that have a certain class."""
        return [path for path, known in self.kinds.items() if known == kind and inside(path, module)]


class _Pass:
    """The operators of a forward pass, or of a recomputation of it."""

    def __init__(self, flow: Flow, cells: _Cells, part: Part) -> None:
        self._flow, self._cells = flow, cells
        self._operators = {name: one for name, one in flow.operators.items() if one.part == part}
        reads: dict[str, list[Operator]] = defaultdict(list)
        for operator in self._operators.values():
            for weight in operator.weights:
                reads[weight].append(operator)
        self._reads = reads
        counts: dict[str, set[int]] = defaultdict(set)
        for weight, readers in reads.items():
            for path in cells.holders(weight):
                for prefix in prefixes(path):
                    counts[prefix].add(len(readers))
        #: module -> number of its calls, 0 if unknown. If any parameter inside is used only once, the number is 1
        self._calls = {
            module: 1 if 1 in numbers else max(numbers) if len(numbers) == 1 else 0
            for module, numbers in counts.items()
        }

    def bind(self, found: dict[str, str]) -> None:
        """Add the modules of these operators to `found`; operators without a known module are left out."""
        sure = self._anchors()
        sure |= self._between(sure, self._around(sure))
        self._rest(sure)
        found |= sure

    def _anchors(self) -> dict[str, str]:
        """Return the modules of the operators that use parameters."""
        sure = {}
        for name, operator in self._operators.items():
            modules = []
            for weight in operator.weights:
                holders = self._cells.holders(weight)
                if len(holders) > 1 or len({one.type for one in self._reads[weight]}) > 1:
                    # several cells share a tied parameter; the class in the scope decides between these cells
                    holders = [path for path in holders if self._cells.kinds.get(path) == operator.scope.kind]
                modules += holders if len(holders) == 1 else []
            if not modules or (module := common(modules)) is None:
                continue
            outer = [
                prefix
                for prefix in prefixes(module)
                if prefix != module
                and self._cells.kinds.get(prefix) == operator.scope.kind
                and prefix.count(".") == operator.path.count(".")
            ]
            sure[name] = outer[-1] if outer and operator.path else module
        return sure

    def _around(self, sure: dict[str, str]) -> dict[str, str]:
        """Return for each operator the innermost module whose call surrounds the operator; empty if there is none.

        A call surrounds an operator if it computes an input of the operator and also uses the operator's result. Other
        operators may lie in between.
        """
        keys: dict[tuple[str, int], int] = {}
        own: dict[str, int] = {}
        for name, module in sure.items():
            operator, bits = self._operators[name], 0
            number, of = 0, 1
            for weight in operator.weights:
                number, of = self._reads[weight].index(operator), len(self._reads[weight])
            for prefix in prefixes(module):
                calls = self._calls.get(prefix, 0)
                if calls == 1 or calls == of:
                    bits |= 1 << keys.setdefault((prefix, 0 if calls == 1 else number), len(keys))
            own[name] = bits
        above: dict[str, int] = {}
        for name, operator in self._operators.items():
            above[name] = own.get(name, 0)
            for one in operator.inputs:
                above[name] |= above.get(one, 0)
        below: dict[str, int] = {}
        for name, operator in reversed(self._operators.items()):
            below[name] = own.get(name, 0)
            for one in operator.users:
                below[name] |= below.get(one, 0)
        modules = [module for module, _ in keys]
        return {name: _innermost(_set(above[name] & below[name], modules)) for name in self._operators}

    def _inner(self, operator: Operator, module: str) -> str:
        """Return the only cell in `module` with the class in an operator's scope; `module` if there is not exactly one.

        The scope is the part of the operator's name that tells its place in the network.
        """
        if operator.path == module or not operator.scope.kind or operator.type in _SIGNS:
            return module
        cells = [path for path in self._cells.of_kind(operator.scope.kind, module) if path not in self._cells.modules]
        return cells[0] if len(cells) == 1 and len(self._cells.of_kind(operator.scope.kind, module)) == 1 else module

    def _between(self, sure: dict[str, str], around: dict[str, str]) -> dict[str, str]:
        """Return the modules of the operators that use no parameters.

        Args:
            sure: modules of the operators that use parameters.
            around: the innermost module whose call surrounds each operator, from `_around`.
        """
        before, behind = self._nearest(sure)
        #: (type of operators, side of a module, module) -> number of operators of this type on this side of the module
        seen: Counter[tuple[str, str, str]] = Counter()
        rest = {name: one for name, one in self._operators.items() if name not in sure and one.type not in PASS_THROUGH}
        for name, operator in rest.items():
            first, second = before.get(name, ""), behind.get(name, "")
            for path in prefixes(first):
                seen[operator.type, "tail", path] += not inside(second, path)
            for path in prefixes(second):
                seen[operator.type, "head", path] += not inside(first, path)
        bound = {}
        for name, operator in rest.items():
            outer, first, second = around[name], before.get(name, ""), behind.get(name, "")
            module: str | None = None
            if _child(first, outer) != _child(second, outer):
                module = self._beside(operator, first, second, outer, seen)
            ahead = name not in before and operator.type not in _SIGNS
            if module is None and (ahead or name not in behind):
                module = self._apart(operator)
            if module is None and outer:
                module = self._inner(operator, outer)
            if module is not None:
                bound[name] = module
        return bound

    def _nearest(self, sure: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """Return for each operator the module of the nearest operator in `sure` before it, and of the one behind it."""
        last: dict[str, int] = {}
        first: dict[str, int] = {}
        modules: dict[int, str] = {}
        for name, operator in self._operators.items():
            if name in sure:
                last[name] = operator.place
                modules[operator.place] = sure[name]
            elif places := [last[one] for one in operator.inputs if one in last]:
                last[name] = max(places)
        for name, operator in reversed(self._operators.items()):
            if name in sure:
                first[name] = operator.place
            elif places := [first[one] for one in operator.users if one in first]:
                first[name] = min(places)
        return (
            {name: modules[place] for name, place in last.items()},
            {name: modules[place] for name, place in first.items()},
        )

    def _beside(
        self, operator: Operator, before: str, behind: str, outer: str, seen: Counter[tuple[str, str, str]]
    ) -> str | None:
        """Return the module of an operator between two modules, by rule 3 of this file; None if rule 3 does not decide.

        Args:
            operator: the operator.
            before: module of the last operator before `operator` whose module is known.
            behind: module of the first operator behind `operator` whose module is known.
            outer: module around `operator`.
            seen: (type of operators, side of a module, module) -> number of operators.
        """
        found = []
        for near, far, side in ((before, behind, "tail"), (behind, before, "head")):
            for module in prefixes(near):
                if len(module) <= len(outer) or inside(far, module) or not inside(module, outer):
                    continue
                kind = self._cells.kinds.get(module)
                like = [path for path in self._cells.modules if self._cells.kinds.get(path) == kind] if kind else []
                counts = {seen[operator.type, side, path] for path in like}
                # all modules of this class have the same number of operators of this type on this side, and this
                # module contains a cell of the class in the operator's scope
                if len(like) > 1 and len(counts) == 1 and self._cells.of_kind(operator.scope.kind, module):
                    found.append(module)
        if len(found) != 1:
            return None
        return self._inner(operator, found[0])

    def _apart(self, operator: Operator) -> str | None:
        """Return the module that the scope names, if this module has no parameters and is the only one of its class."""
        path = operator.path
        if not path or path in self._cells.modules:
            return None
        return path if len(self._cells.of_kind(operator.scope.kind, "")) == 1 else None

    def _rest(self, sure: dict[str, str]) -> None:
        """Bind operators behind all uses of parameters, such as those of a loss, to the modules around them."""
        _, behind = self._nearest({name: path for name, path in sure.items() if path in self._cells.modules})
        late = {name: one for name, one in self._operators.items() if name not in behind}
        above: dict[str, set[str]] = {}
        for name, operator in late.items():
            above[name] = set().union(*(above.get(one, set()) for one in operator.inputs))
            above[name] |= {sure[name]} if name in sure else set()
        below: dict[str, set[str]] = {}
        for name, operator in reversed(late.items()):
            below[name] = set().union(*(below.get(one, set()) for one in operator.users))
            below[name] |= {sure[name]} if name in sure else set()
        for name in late:
            if name not in sure and (both := _innermost(above[name] & below[name])):
                sure[name] = both


def _child(module: str | None, outer: str) -> str:
    """Return the module directly inside `outer` that is `module` or contains it; empty if there is none."""
    if not module or module == outer:
        return ""
    rest = module[len(outer) + 1 :] if outer else module
    first = rest.partition(".")[0]
    return f"{outer}.{first}" if outer else first


def _innermost(modules: set[str]) -> str:
    """Return the innermost of nested modules. If the modules are not nested, return the module around all of them."""
    deepest = [one for one in modules if not any(other != one and inside(other, one) for other in modules)]
    return common(deepest) or ""


def _set(bits: int, modules: list[str]) -> set[str]:
    found = set()
    while bits:
        low = bits & -bits
        found.add(modules[low.bit_length() - 1])
        bits ^= low
    return found
