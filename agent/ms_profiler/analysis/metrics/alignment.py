"""Which operator each gradient of a backward pass is of, by the order of their names.

Autograd runs the nodes of a graph in the reverse order of their making, since what uses a result is made after what
made it (`ReadyQueue` of github.com/pytorch/pytorch, torch/csrc/autograd/engine.cpp). So the gradients, the last one
first, are some of the operators in their order: those that recorded a node. Which operators did not is unknown (they
ran without gradients, or of frozen parameters, or for another loss), so a gradient may be of any operator of its name
from the first to the last one that leave room for the others. It belongs to what is around all of these.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

#: of the operators at the end of a pass, this share at most may have no gradient where only those count
SKIPPED_MOST = 0.1
#: in place of the number of a module: in none, and not known
OUTSIDE, UNKNOWN = -1, -2


@dataclass(frozen=True)
class Alignment:
    """Where gradients can stand among operators.

    Attributes:
        first: for each gradient the first operator that it can be of; the last gradient first.
        last: the last one.
    """

    first: list[int]
    last: list[int]


def align(gradients: Sequence[int], operators: Sequence[int]) -> Alignment | None:
    """Return where gradients can stand; None where they are not some of the operators in their order.

    Args:
        gradients: names, in the order in which their operators ran.
        operators: names.
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
    """Return from which operator on the pass must be, 0 where that is not known.

    Where the gradients are the last operators, almost without one between, they are of these: whatever came before was
    not for this pass.

    Args:
        gradients: names, in the order in which their operators ran.
        operators: names.
        found: of `align`.
    """
    if not gradients:
        return 0
    skipped = len(operators) - found.last[0] - len(gradients)
    return found.last[0] if skipped <= SKIPPED_MOST * len(gradients) else 0


@dataclass
class Paths:
    """Modules by number, with what is around several of them.

    Attributes:
        texts: paths with dots, by number; more are added.
    """

    texts: list[str]
    _numbers: dict[str, int] = field(default_factory=dict)
    _known: dict[tuple[int, int], int] = field(default_factory=dict)

    def common(self, one: int, other: int) -> int:
        """Return the innermost module that both are in; `UNKNOWN` where there is none."""
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
        """Return the number of a path."""
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
        gradients: names.
        operators: names.
        modules: of the operators, by number, or `OUTSIDE`.
        found: where the gradients can stand.
        paths: of the modules.
    """
    places: dict[int, list[int]] = defaultdict(list)
    for place, name in enumerate(operators):
        places[name].append(place)
    told = []
    for name, first, last in zip(gradients, found.first, found.last, strict=True):
        module = modules[first]
        if first != last:
            here = places[name]
            for place in here[bisect_left(here, first) + 1 :]:
                if place > last or module == UNKNOWN:
                    break
                module = paths.common(module, modules[place])
        told.append(module)
    return told
