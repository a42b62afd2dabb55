"""Read properties of PyTorch's tensors without running code of subclasses.

A script may define a subclass that overrides a property, or counts how often it is read. ms-profiler must not run this
code.
"""

import sys
from typing import Any

from ms_profiler.job.frameworks import trees

_NOTHING = "__torch_dispatch__"


def read(tensor: Any, name: str) -> Any:
    """Return a property of a tensor as PyTorch defines it, without code of the script.

    The result is None if the object is not a tensor, or if its class overrides `__torch_dispatch__`.

    Args:
        tensor: any object.
        name: name of a property that PyTorch defines in C++.
    """
    torch, kind = sys.modules["torch"], type(tensor)
    own = torch.Tensor
    if not issubclass(kind, own):
        return None
    property_ = trees.member(torch._C.TensorBase, name)
    known = kind is own or kind is torch.nn.Parameter
    if not known and trees.member(kind, _NOTHING) is not trees.member(own, _NOTHING):
        return None
    with torch._C.DisableTorchFunction():  # otherwise PyTorch could call code of the script (a torch function mode)
        return property_.__get__(tensor)


def size(value: Any) -> int:
    """Return the size of a tensor, or of all tensors in a sequence, in bytes; 0 if unknown. Do not wait for values."""
    kind = type(value)
    if issubclass(kind, list):
        return sum(map(size, list.__iter__(value)))
    if issubclass(kind, tuple):
        return sum(map(size, tuple.__iter__(value)))
    return int(read(value, "nbytes") or 0)
