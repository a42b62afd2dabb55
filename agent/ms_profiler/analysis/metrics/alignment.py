"""Match the gradients of a backward pass with the operators before the pass, by the order of their names.

Autograd runs the nodes of a graph in the reverse order of their creation (`ReadyQueue` of github.com/pytorch/pytorch,
torch/csrc/autograd/engine.cpp). So the gradients, the last one first, are a subsequence of the operators. Some
operators have no gradient in the pass: autograd records no node for operators that run without gradients or on frozen
parameters, and the nodes of another loss run in another pass.

So several operators may fit a gradient. Example: with the operators `mul add mul add` and the gradients `mul add`, both
`mul` fit the first gradient, and both `add` the second. A gradient is assigned to the innermost module around all the
operators that fit.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

#: limit of (operators without a gradient) / gradients among the last operators; see `window`
SKIPPED_MOST = 0.1
#: special values of a module's number: outside of all modules, and unknown
OUTSIDE, UNKNOWN = -1, -2


@dataclass(frozen=True)
class Alignment:
    """The possible positions of each gradient among the operators.

    Attributes:
        first: position of the first operator that fits each gradient, from the last gradient to the first.
        last: position of the last operator that fits each gradient, in the same order.
    """

    first: list[int]
    last: list[int]


def align(gradients: Sequence[int], operators: Sequence[int]) -> Alignment | None:
    """Return the possible positions of gradients; None if the gradients are no subsequence of the operators.

    Args:
        gradients: the names of the gradients, in the order in which their operators ran.
        operators: the names of the operators.
    """
    first, place = [], 0
    for name in gradients:
        while place < len(operators) and operators[place] != name:
            place += 1
        if place == len(operators):
            return None
        first.append(place)
        place += 1
    last, place = [], len(operators) - 1
    for name in reversed(gradients):
        while operators[place] != name:
            place -= 1
        last.append(place)
        place -= 1
    return Alignment(first, last[::-1])


def window(gradients: Sequence[int], operators: Sequence[int], found: Alignment) -> int:
    """Return the position of the first operator that can belong to the pass; 0 if unknown.

    If the gradients match the last operators almost without gaps, earlier operators do not belong to this pass.

    Args:
        gradients: the names of the gradients, in the order in which their operators ran.
        operators: the names of the operators.
        found: the result of `align`.
    """
    if not gradients:
        return 0
    skipped = len(operators) - found.last[0] - len(gradients)
    return found.last[0] if skipped <= SKIPPED_MOST * len(gradients) else 0


@dataclass
class Paths:
    """The paths of modules by number; finds the innermost module around two modules.

    Attributes:
        texts: path of each module (`"network.backbone"`), by module number; `number` appends new paths.
    """

    texts: list[str]
    _numbers: dict[str, int] = field(default_factory=dict)
    _known: dict[tuple[int, int], int] = field(default_factory=dict)

    def common(self, one: int, other: int) -> int:
        """Return the innermost module that contains both modules; `UNKNOWN` if there is none."""
        if one == other:
            return one
        if one < 0 or other < 0:
            return UNKNOWN
        found = self._known.get((one, other))
        if found is None:
            shared = []
            for a, b in zip(self.texts[one].split("."), self.texts[other].split("."), strict=False):
                if a != b:
                    break
                shared.append(a)
            found = self._known[one, other] = self.number(".".join(shared)) if shared else UNKNOWN
        return found

    def number(self, path: str) -> int:
        """Return the number of a path, adding the path if it is new."""
        if not self._numbers:
            for number, text in enumerate(self.texts):
                self._numbers.setdefault(text, number)
        if path not in self._numbers:
            self._numbers[path] = len(self.texts)
            self.texts.append(path)
        return self._numbers[path]


def owners(
    gradients: Sequence[int], operators: Sequence[int], modules: Sequence[int], found: Alignment, paths: Paths
) -> list[int]:
    """Return the module that each gradient belongs to, `OUTSIDE`, or `UNKNOWN`.

    Args:
        gradients: the names of the gradients.
        operators: the names of the operators.
        modules: the modules of the operators, by number, or `OUTSIDE`.
        found: the result of `align`.
        paths: the paths of the modules.
    """
    places: dict[int, list[int]] = defaultdict(list)
    for place, name in enumerate(operators):
        places[name].append(place)
    found_modules = []
    for name, first, last in zip(gradients, found.first, found.last, strict=True):
        module = modules[first]
        if first != last:
            here = places[name]
            for place in here[bisect_left(here, first) + 1 :]:
                if place > last or module == UNKNOWN:
                    break
                module = paths.common(module, modules[place])
        found_modules.append(module)
    return found_modules
