"""Find the operator of each gradient of a backward pass, or at least its module, from the order of operator names.

Autograd runs the nodes of a graph in the reverse order of their creation (`ReadyQueue` of github.com/pytorch/pytorch,
torch/csrc/autograd/engine.cpp). So the gradients in reverse order are a subsequence of the operators before the pass.
torch/csrc/autograd/engine.cpp). So the gradients in reverse order are a subsequence of the operators that ran before
the pass. They are only a subsequence because some operators have no gradient in the pass:

- Autograd records no node for operators that run without gradients or on frozen parameters.
- The operators of another loss have their gradients in another backward pass.

So several operators may fit one gradient. Example: the operators are `mul mul relu`, and the only gradient is `mul`.
Both `mul` fit. The gradient is then assigned to the innermost module that contains all the operators that fit.

In this module, a position is an index into the list of operators. Names and modules are represented by numbers.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

#: `window` ignores the operators before a position only if nearly all operators from there on have a gradient. This is
#: the largest allowed ratio (operators without a gradient) / (gradients) among these operators
SKIPPED_MOST = 0.1
#: module numbers with a special meaning: the operator ran outside of all modules; the operator's module is unknown
OUTSIDE, UNKNOWN = -1, -2


@dataclass(frozen=True)
class Alignment:
    """The earliest and the latest operator that fits each gradient. Both lists have the order of the gradients.

    Attributes:
        first: for each gradient, the position of the earliest operator that fits.
        last: for each gradient, the position of the latest operator that fits.
    """

    first: list[int]
    last: list[int]


def align(gradients: Sequence[int], operators: Sequence[int]) -> Alignment | None:
    """Return the operators that fit each gradient; None if the gradients are no subsequence of the operators.

    Args:
        gradients: the name of each gradient, as a number. The last gradient of the pass comes first, so the gradients
            have the order in which their operators ran.
        operators: the name of each operator, as a number, in the order in which the operators ran.
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
    """Return the position of the first operator that can have a gradient in the pass; 0 if unknown.

    The function examines the latest operator that fits the first gradient, and all operators after it. If nearly all of
    these operators have a gradient in the pass, the function assumes that the earlier operators have none.

    Args:
        gradients: the name of each gradient, in the order of `align`.
        operators: the name of each operator, in the order of `align`.
        found: the result of `align` for these gradients and operators.
    """
    if not gradients:
        return 0
    skipped = len(operators) - found.last[0] - len(gradients)
    return found.last[0] if skipped <= SKIPPED_MOST * len(gradients) else 0


@dataclass
class Paths:
    """The paths of the modules. The number of a module is the index of its path.

    Attributes:
        texts: path of module 0, of module 1 and so on, such as `"network.backbone"`; `number` appends new paths.
    """

    texts: list[str]
    _numbers: dict[str, int] = field(default_factory=dict)
    _known: dict[tuple[int, int], int] = field(default_factory=dict)

    def common(self, one: int, other: int) -> int:
        """Return the number of the innermost module that contains both modules; `UNKNOWN` if no module does."""
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
        """Return the module number of a path; a new path gets the next number."""
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
    """Return for each gradient the number of its module, or `OUTSIDE` (of all modules), or `UNKNOWN`.

    Args:
        gradients: the name of each gradient, in the order of `align`.
        operators: the name of each operator, in the order of `align`.
        modules: for each operator, the number of its module, or `OUTSIDE`.
        found: the result of `align` for these gradients and operators.
        paths: the paths of the modules; the function may add paths.
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
