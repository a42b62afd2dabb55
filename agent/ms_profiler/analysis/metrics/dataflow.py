"""The data flow of a compiled graph: which operator reads which data and which weights.

Some edges of the graph do not carry data; they only order side effects. These edges are left out.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from ms_profiler.analysis.metrics.scopes import Part, Scope
from ms_profiler.analysis.readers.graphs import Graph
from ms_profiler.store.format import Category

#: types of nodes that run no kernel; the output of such a node is its input
PASS_THROUGH: Final = frozenset({"Load", "Depend", "TupleGetItem", "MakeTuple", "Reshape", "ExpandDims", "Squeeze"})
#: types of nodes that may lie between a weight and the operator that uses it
_PREPARED: Final = PASS_THROUGH | {"Cast", "Transpose", "TransposeView", "TransposeExt", "BroadcastTo"}
_ORDER: Final = frozenset({"UpdateState", "Return"})
_WRITES: Final = re.compile(r"Assign\w*")
_GRADIENT: Final = re.compile(r"Grad_(\w+)")


@dataclass(slots=True)
class Operator:
    """An operator of the graph.

    Attributes:
        name: name of the operator's node in the graph.
        place: position of the node in the order of the graph.
        type: name of the primitive, such as `"MatMul"`.
        scope: the scope, parsed from the full name of the node.
        path: path of the operator's module within the compiled cell: attribute names joined by dots; empty if unknown.
        part: part of a training step, such as `Part.FORWARD`.
        inputs: names of the operators whose data this operator reads.
        users: names of the operators that read this operator's data.
        weights: names of the parameters that this operator reads, as they are or after a conversion.
        gradient_of: type of the operator whose gradient this operator computes, wholly or in part; None if it computes
            no gradient.
    """

    name: str
    place: int
    type: str
    scope: Scope
    path: str
    part: Part
    inputs: tuple[str, ...]
    users: list[str] = field(default_factory=list)
    weights: tuple[str, ...] = ()
    gradient_of: str | None = None


class Flow:
    """The operators of a graph and their data flow.

    Attributes:
        operators: name -> operator, each after its inputs. Nodes that only load or convert a parameter are left out.
        prepared: name of a node that only loads or converts -> names of the parameters that it loads or converts.
        written: name of an operator that updates a parameter from gradients -> name of this parameter.
    """

    def __init__(self, graph: Graph) -> None:
        self.operators: dict[str, Operator] = {}
        self.prepared: dict[str, tuple[str, ...]] = {}
        self.written: dict[str, str] = {}
        after: set[str] = set()
        #: nodes that run after a gradient. MindSpore gives both copies of a recomputed operator the same prefix. Only
        #: the copy that has to wait for a gradient is a recomputation
        late: set[str] = set()
        for place, (name, node) in enumerate(graph.nodes.items()):
            if node.type in _ORDER:
                continue
            data = node.inputs[:1] if node.type in ("Depend", "Load") else node.inputs
            inputs = tuple(one for one in dict.fromkeys(data) if one in self.operators)
            weights = [weight for one in data for weight in self.prepared.get(one, ())]
            direct = [one for one in data if one in graph.parameters]
            scope = Scope.of(node.full_name)
            if scope.part == Part.BACKWARD or not late.isdisjoint(node.inputs):
                late.add(name)
            part = scope.part
            if part == Part.RECOMPUTE and name not in late:
                part = Part.FORWARD
            if scope.part != Part.BACKWARD and after.intersection(inputs) and direct and self._writes(node.type, scope):
                part = Part.OPTIMIZER
            if scope.phase == Category.OPTIMIZER and part == Part.UNKNOWN:
                part = Part.OPTIMIZER
            updates = scope.phase == Category.OPTIMIZER or after.intersection(inputs)
            if part == Part.OPTIMIZER and data[:1] == tuple(direct[:1]) and updates:
                self.written[name] = direct[0]
            elif not inputs and node.type in _PREPARED and (weights or node.type == "Load"):
                self.prepared[name] = tuple(dict.fromkeys(weights or direct))
                continue
            if part in (Part.BACKWARD, Part.OPTIMIZER) or after.intersection(inputs):
                after.add(name)
                part = part if part in (Part.BACKWARD, Part.OPTIMIZER) else Part.UNKNOWN
            elif part == Part.UNKNOWN:
                part = Part.FORWARD
            # parameters that are not weights, such as the moving averages of a norm, also show the operator's module
            weights += direct if part == Part.FORWARD else []
            operator = Operator(
                name, place, node.type, scope, scope.module or "", part, inputs, weights=tuple(dict.fromkeys(weights))
            )
            matched = _GRADIENT.fullmatch(scope.path.rpartition("/")[2])
            operator.gradient_of = matched[1] if matched else None
            self.operators[name] = operator
            for one in inputs:
                self.operators[one].users.append(name)

    @staticmethod
    def _writes(kind: str, scope: Scope) -> bool:
        return scope.phase == Category.OPTIMIZER or _WRITES.fullmatch(kind) is not None

    def sources(self, name: str) -> list[str]:
        """Return the names of the operators that computed an operator's inputs.

        Operators that only pass data on are skipped; their own inputs are followed instead.
        """
        found: dict[str, None] = {}
        waiting = list(self.operators[name].inputs)
        while waiting:
            one = waiting.pop()
            operator = self.operators[one]
            if operator.type in PASS_THROUGH:
                waiting += operator.inputs
            else:
                found[one] = None
        return list(found)
