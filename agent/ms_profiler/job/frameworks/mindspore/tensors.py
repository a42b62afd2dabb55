"""Read the sizes and types of MindSpore's tensors, without running code of the script's subclasses."""

import math
from typing import Any

from ms_profiler.job.frameworks import trees

#: properties that MindSpore's C++ base class of all tensors defines. A script may override them in a subclass.
SHAPE, TYPE, ITEM = "_shape", "dtype", "_itemsize"


def is_tensor(value: Any) -> bool:
    """Return whether a value is a tensor of MindSpore, or of a subclass in the script."""
    return trees.member(type(value), "asnumpy") is not None and _lowest(value, TYPE) is not None


def read(tensor: Any, name: str) -> Any:
    """Return a property of a tensor as MindSpore's C++ code defines it; None if MindSpore defines no such property."""
    found = _lowest(tensor, name)
    return None if found is None else found.__get__(tensor)


def shape(tensor: Any) -> tuple[int, ...]:
    """Return the shape of a tensor."""
    return tuple(read(tensor, SHAPE) or ())


def size(value: Any) -> int:
    """Return the size of a tensor, or of all tensors in a sequence, in bytes; 0 if unknown. Do not wait for values."""
    kind = type(value)
    if issubclass(kind, list):
        return sum(map(size, list.__iter__(value)))
    if issubclass(kind, tuple):
        return sum(map(size, tuple.__iter__(value)))
    return math.prod(shape(value)) * int(read(value, ITEM) or 0) if is_tensor(value) else 0


def name(parameter: Any) -> str | None:
    """Return the name of a parameter; None for any other tensor."""
    information = trees.attributes(parameter).get("_param_info")
    found: Any = None if information is None else trees.member(type(information), "name")
    text = found.__get__(information) if hasattr(type(found), "__get__") else None
    return text if type(text) is str else None


def _lowest(value: Any, name: str) -> Any:
    """Return the property as the most basic class of a value defines it; None if no class has it."""
    found = [trees.members(base)[name] for base in trees.mro(type(value)) if name in trees.members(base)]
    return found[-1] if found and hasattr(type(found[-1]), "__get__") else None
