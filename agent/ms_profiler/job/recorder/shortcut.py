"""The usual cases of hooks, which the C extension handles without running Python code; see native/steps.h."""

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple


class Usual(IntEnum):
    """The hooks whose usual case the C extension handles without running Python code."""

    FORWARD = 1
    BACKWARD = 2
    WAIT = 3


class Shortcut(NamedTuple):
    """What the C extension must know to handle the usual case of a hook without running Python code.

    Attributes:
        kind: the hook.
        steps: the `Steps` of the session, which decides where steps end.
        known: for a forward pass, id of a module -> its label; for a wait for a batch, id of an iterator -> its label;
            for a backward pass, the variables of `torch.compiler`, one of which says whether PyTorch compiles.
        condition: a function in C, called without arguments before a forward pass, which must return True:
            `torch.is_grad_enabled`. None in the other cases.
        name: id of the name of the span; a wait has the name of its label.
        category: category of the span; a wait has the category of its label.
    """

    kind: Usual
    steps: object
    known: dict[Any, Any]
    condition: Callable[[], bool] | None
    name: int
    category: int
