"""Find out why a graph is compiled again: how its arguments differ from the last compilation of the same code.

Of tensors, ms-profiler compares shapes and types, never values. It also compares other arguments, but the reason that
it records says only that such an argument has changed, and not the value. The values stay in memory. Of a string,
ms-profiler keeps only a hash.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ms_profiler.job.frameworks import trees
from ms_profiler.job.frameworks.base import Labels
from ms_profiler.job.frameworks.mindspore import tensors

#: Of a sequence, only the first ELEMENTS elements and LEVELS nested levels are compared.
ELEMENTS, LEVELS = 32, 3
#: Largest number of differences that the recorded reason of a compilation lists.
SHOWN = 3
#: For each compiled class or function, ms-profiler remembers the last compilation of at most this number of objects.
OBJECTS = 64


@dataclass(frozen=True)
class Item:
    """The properties of one argument that decide whether a graph has to be compiled again.

    Attributes:
        kind: name of the argument's type.
        shape: the shape of a tensor; None for any other argument.
        value: what distinguishes arguments of one type: dtype and name of a tensor, a Python value, a hash, or an id.
        parts: the elements of a sequence or the values of a dictionary.
    """

    kind: str
    shape: tuple[int, ...] | None = None
    value: Any = None
    parts: tuple["Item", ...] = ()


@dataclass(frozen=True)
class Signature:
    """The arguments of one compilation.

    Attributes:
        arguments: the arguments in order.
        phase: mode of the cell, "train" or "predict"; empty for a function.
        gradient: whether the function was compiled together with its gradient.
    """

    arguments: tuple[Item, ...]
    phase: str = ""
    gradient: bool = False


@dataclass
class Compiled:
    """The compilations of one function or class.

    Attributes:
        count: the number of compilations.
        last: key of a cell or function -> arguments of its last compilation. Several cells or functions may share their
            code, and the key tells them apart.
    """

    count: int = 0
    last: dict[Any, Signature] = field(default_factory=dict)


def item(argument: Any, level: int = 0) -> Item:
    """Return the description of one argument; `level` is its depth inside sequences."""
    kind, name = type(argument), trees.kind_name(argument)
    if tensors.is_tensor(argument):
        # MindSpore compiles the name of a parameter into the graph, so the name counts, too
        return Item(name, tensors.shape(argument), (str(tensors.read(argument, tensors.TYPE)), tensors.name(argument)))
    if issubclass(kind, (list, tuple, dict)):
        # The class may be a subclass that the script defines, with methods of its own. So call those of the base class.
        keys, values = None, _elements(argument)
        if issubclass(kind, dict):
            keys = hash(tuple(key if type(key) is str else id(key) for key in dict.keys(argument)))
        parts = values[:ELEMENTS] if level < LEVELS else []
        return Item(name, None, (len(values), keys), tuple(item(part, level + 1) for part in parts))
    if argument is None or kind in (bool, int, float, complex):
        return Item(name, None, argument)
    return Item(name, None, hash(argument) if kind in (str, bytes) else id(argument))


def _elements(argument: Any) -> list[Any]:
    if issubclass(type(argument), dict):
        return list(dict.values(argument))
    return list.copy(argument) if issubclass(type(argument), list) else list(tuple.__iter__(argument))


def signature(arguments: Iterable[Any], phase: str = "", gradient: bool = False) -> Signature:
    """Return the arguments of a compilation that is about to begin, in a form that `differences` can compare."""
    return Signature(tuple(item(argument) for argument in arguments), phase, gradient)


def differences(before: Signature, after: Signature, names: Sequence[str] = ()) -> list[str]:
    """Return the differences between the arguments of two compilations, in words; empty if there are none.

    Args:
        before: arguments of the last compilation.
        after: arguments of this compilation.
        names: names of the function's parameters, as far as they are known.
    """
    found = []
    if len(before.arguments) != len(after.arguments):
        found.append(f"{len(before.arguments)} -> {len(after.arguments)} arguments")
    for index, (old, new) in enumerate(zip(before.arguments, after.arguments, strict=False)):
        name = f" {names[index]}" if index < len(names) else ""
        found += _item_differences(old, new, f"argument {index + 1}{name}")
    if before.phase != after.phase:
        found.append(f"phase {before.phase or 'none'} -> {after.phase or 'none'}")
    if before.gradient != after.gradient:
        found.append("now with gradient" if after.gradient else "now without gradient")
    return found


def _item_differences(old: Item, new: Item, where: str) -> list[str]:
    if old == new:
        return []
    if (old.shape is None) != (new.shape is None) or (old.shape is None and old.kind != new.kind):
        return [f"{where}: type {old.kind} -> {new.kind}"]
    if old.shape is not None:
        found = [] if old.shape == new.shape else [f"{where}: shape {old.shape} -> {new.shape}"]
        if old.value[0] != new.value[0]:
            found.append(f"{where}: dtype {old.value[0]} -> {new.value[0]}")
        return found or [f"{where}: another {new.kind}"]
    if old.parts or new.parts:
        if old.value[0] != new.value[0]:
            return [f"{where}: {old.value[0]} -> {new.value[0]} elements"]
        found = []
        for index, (part, other) in enumerate(zip(old.parts, new.parts, strict=False)):
            found += _item_differences(part, other, f"{where}[{index}]")
        return found or [f"{where}: keys of the {new.kind}"]
    return [f"{where}: {new.kind} changed"]


def _holds_tensor(one: Item) -> bool:
    return any(part.shape is not None or _holds_tensor(part) for part in one.parts)


class History:
    """Remember compilations, and find the reason of a repeated one."""

    def __init__(self) -> None:
        #: class or code -> (id of the user's function, or 0) -> the compilations
        self._known: Labels[dict[int, Compiled]] = Labels(lambda definition: {})

    def compiled(
        self, definition: Any, inner: int, which: Any, now: Signature, names: Sequence[str] = (), replaces: bool = True
    ) -> tuple[str, int]:
        """Note a compilation; return the reason if the code was compiled before, and the number of compilations so far.

        Args:
            definition: the class or code that is compiled; this object does not keep it alive.
            inner: id of the user's function if MindSpore has put it into a wrapper, else 0. All wrappers have the same
                code, so the id tells them apart.
            which: a hashable key that distinguishes the cell or function from others with the same code.
            now: the arguments of this compilation.
            names: names of the function's parameters.
            replaces: whether the cell or function replaces an earlier one that no longer exists.

        Returns:
            The reason, and the number of compilations so far. The reason is empty for the first compilation of a cell
            or function.
        """
        known = (self._known.known.get(id(definition)) or self._known.add(definition)).setdefault(inner, Compiled())
        known.count += 1
        before = known.last.pop(which, None)
        why = ""
        if before is not None:
            found = differences(before, now, names)
            if len(found) > SHOWN:
                found[SHOWN:] = [f"{len(found) - SHOWN} more"]
            why = "; ".join(found) or self._unseen(now)
        elif known.last and replaces:
            why = "new object"
        known.last[which] = now
        if len(known.last) > OBJECTS:
            del known.last[next(iter(known.last))]
        return why, known.count

    @staticmethod
    def _unseen(now: Signature) -> str:
        for index, argument in enumerate(now.arguments):
            if _holds_tensor(argument):
                return f"argument {index + 1}: value of a constant tensor in a {argument.kind}"
        return "parameters, hooks or settings, not the arguments"
