"""Sizes and places of tensors, without running code of subclasses, which may override every property and count
reads.
"""

import sys
from typing import Any

from ms_profiler.job.frameworks import trees

_NOTHING = "__torch_dispatch__"


def read(tensor: Any, name: str) -> Any:
    """Return a property of a tensor as PyTorch defines it; None if the object is no tensor or its class overrides the
    property.

    Args:
        tensor: any object.
        name: name of a property that PyTorch defines in C++.
    """
    torch, kind = sys.modules["torch"], type(tensor)
    own = torch.Tensor
    if not issubclass(kind, own):
        return None
    property_ = trees.member(torch._C.TensorBase, name)
    if kind is own or kind is torch.nn.Parameter:
        return property_.__get__(tensor)
    if trees.member(kind, _NOTHING) is not trees.member(own, _NOTHING):
        return None
    with torch._C.DisableTorchFunctionSubclass():
        return property_.__get__(tensor)


def size(value: Any) -> int:
    """Return the bytes of a tensor, or of the tensors in a sequence, without waiting for them; 0 if unknown."""
    kind = type(value)
    if issubclass(kind, list):
        return sum(map(size, list.__iter__(value)))
    if issubclass(kind, tuple):
        return sum(map(size, tuple.__iter__(value)))
    return int(read(value, "nbytes") or 0)
