"""Find the module of each gradient of a compiled graph.

In this module, a gradient is an operator of the backward pass. It belongs to an operator of the forward pass. The
forward operator has the type that the gradient's scope names (`Dense` in `Grad_Dense`), and one of these is true:

- The gradient reads an input or the result of the operator.
- The gradient is that of a parameter that only this operator uses.
- The gradient reads the gradient of the operator's result. Example: in `fc(relu(x))`, the gradient of `fc` computes the
  gradient of the result of `relu`. So a gradient that reads this gradient belongs to `relu`.

If several operators use a value, the gradient of the value is a sum, and each of these operators contributes a part. If
a gradient can belong to several operators, it belongs to the innermost module around them.
"""

from collections import defaultdict
from typing import Final

from ms_profiler.analysis.metrics.dataflow import PASS_THROUGH, Flow, Operator
from ms_profiler.analysis.metrics.module_paths import common
from ms_profiler.analysis.metrics.scopes import Part

#: operators that return a gradient unchanged, or in another shape
_PASSED: Final = PASS_THROUGH | {"Add", "AddExt", "Sub", "SubExt", "Cast", "AddN", "Depend", "Flatten", "StridedSlice"}
_SUM: Final = frozenset({"AddN", "Add", "AddExt"})
#: operators whose gradient for one operand is computed from the other operand
_PRODUCTS: Final = frozenset(
    {"MatMul", "MatMulExt", "BatchMatMul", "BatchMatMulExt", "Mul", "Dense", "Conv2D", "Conv3D"}
)
#: limit of the work per gradient: `_follow` stops when it has noted this number of values for a gradient
_FAR: Final = 256


class Gradients:
    """The gradients (operators of a backward pass) and the operators of the forward pass to which they belong.

    Args:
        flow: the data flow of the graph.
        found: name of an operator of the forward pass -> its module. `bind` adds the operators of the backward pass.
    """

    def __init__(self, flow: Flow, found: dict[str, str]) -> None:
        self._flow, self._found = flow, found
        self._operators = {name: one for name, one in flow.operators.items() if one.part == Part.BACKWARD}
        self._forward = {
            name: one for name, one in flow.operators.items() if one.part in (Part.FORWARD, Part.RECOMPUTE)
        }
        self._readers: dict[str, list[str]] = defaultdict(list)
        for name in self._forward:
            for source in (*flow.sources(name), *self._forward[name].weights):
                self._readers[source].append(name)
        #: name of a gradient -> values whose whole gradient it computes. A value is named after its operator
        self._whole: dict[str, set[str]] = {}
        #: name of a gradient -> values whose gradient it may compute, wholly or in part
        self._partly: dict[str, set[str]] = {}
        #: name of a gradient -> operators of the forward pass to which it can belong
        self._of: dict[str, set[str]] = {}
        self._reaches = self._updates()

    def bind(self) -> None:
        """Find the module of each gradient, where possible."""
        for name, operator in self._operators.items():
            if operator.type in PASS_THROUGH:
                for table in (self._whole, self._partly, self._of):
                    table[name] = set().union(*(table.get(one, set()) for one in operator.inputs))
                continue
            if operator.type in _SUM and not operator.gradient_of:
                users = self._summed(operator)
            else:
                users = self._of[name] = self._candidates(operator)
                values = {value for one in users for value in self._operands(operator, one)}
                self._follow(name, values, {value for value in values if len(self._readers[value]) == 1})
            if users and all(one in self._found for one in users):
                self._found[name] = common(self._found[one] for one in users) or ""

    def _candidates(self, operator: Operator) -> set[str]:
        """Return the operators of the forward pass that a gradient can belong to."""
        kind = operator.gradient_of
        if kind is None:
            return set()
        read = [one for one in self._flow.sources(operator.name) if one in self._forward]
        found: set[str] = set()
        for value in (*read, *operator.weights):
            found |= {one for one in self._readers[value] if self._forward[one].type == kind}
        found |= {one for one in read if self._forward[one].type == kind}
        written = self._reaches.get(operator.name, frozenset())
        if len(written) == 1:
            (weight,) = written
            using = {one for one in self._readers[weight] if self._forward[one].type == kind}
            found = (found & using or found) if found else using
        # the gradient may also read the gradient of its operator's result, or another part of its operator's gradient
        following: set[str] = set()
        for table in (self._whole, self._partly):
            following = {value for one in operator.inputs for value in table.get(one, ())}
            following = {value for value in following if self._forward[value].type == kind}
            if following:
                break
        same = {value for one in operator.inputs for value in self._of.get(one, ())}
        following |= {value for value in same if self._forward[value].type == kind}
        return (found & following or found) if found else following

    def _operands(self, gradient: Operator, name: str) -> list[str]:
        """Return those operands of the operator `name` whose gradients the operator `gradient` can compute."""
        operands = self._flow.sources(name)
        if self._forward[name].type in _PRODUCTS:
            read = [*self._flow.sources(gradient.name), *gradient.weights]
            if any(one in read for one in (*operands, *self._forward[name].weights)):
                return [one for one in operands if one not in read]
        return operands

    def _follow(self, name: str, values: set[str], whole: set[str]) -> None:
        """Note the values whose gradient an operator computes.

        An operator of `_PASSED` passes the gradient of its result on to its operands. So its operands count, too.

        Args:
            name: name of the gradient.
            values: the values whose gradients this operator computes, wholly or in part.
            whole: the values whose gradients it computes wholly; a subset of `values`.
        """
        self._whole[name], self._partly[name] = set(whole), set(values)
        waiting = list(values)
        while waiting and len(self._partly[name]) < _FAR:
            value = waiting.pop()
            if value not in self._forward or self._forward[value].type not in _PASSED:
                continue
            for one in self._flow.sources(value):
                if one in self._partly[name]:
                    continue
                self._partly[name].add(one)
                if value in self._whole[name] and len(self._readers[one]) == 1:
                    self._whole[name].add(one)
                    waiting.append(one)
                elif value not in self._whole[name]:
                    waiting.append(one)

    def _summed(self, operator: Operator) -> set[str]:
        """Return the operators whose contributions to a gradient `operator` adds up: all that use the same value."""
        parts = [one for name in operator.inputs for one in self._parts(name)]
        shared = set.intersection(*(self._partly.get(one, set()) for one in parts)) if parts else set()
        shared = {value for value in shared if len(self._readers[value]) > 1}
        if not shared:
            return set()
        value = max(shared, key=lambda one: self._flow.operators[one].place)
        self._follow(operator.name, {value}, {value})
        self._of[operator.name] = set()
        return set(self._readers[value])

    def _parts(self, name: str) -> list[str]:
        operator = self._flow.operators[name]
        return (
            [part for one in operator.inputs for part in self._parts(one)] if operator.type == "MakeTuple" else [name]
        )

    def _updates(self) -> dict[str, frozenset[str]]:
        """Return, for each operator, up to two parameters whose update depends on the operator's result."""
        reached: dict[str, frozenset[str]] = {}
        for name, operator in reversed(self._flow.operators.items()):
            if name in self._flow.written:
                reached[name] = frozenset({self._flow.written[name]})
                continue
            several = frozenset().union(*(reached.get(one, frozenset()) for one in operator.users))
            reached[name] = several if len(several) <= 2 else frozenset(sorted(several)[:2])
        return reached
