"""The usual cases of hooks, which the C extension handles without running Python code; see native/steps.h."""

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple


class Usual(IntEnum):
    """The hooks whose usual case the C extension handles without running Python code."""

    FORWARD = 1
    BACKWARD = 2
    OPTIMIZER_BEGINS = 3
    OPTIMIZER_ENDS = 4


class Shortcut(NamedTuple):
    """What the C extension must know to handle the usual case of a hook without running Python code.

    Attributes:
        kind: the hook.
        steps: the `Steps` of the session, which decides where steps end.
        known: id of a module -> its label; or id of a class of optimizers -> (name, argument of the span).
        condition: called without arguments: `torch.is_grad_enabled` for a forward pass, which must return True;
            `torch.compiler.is_compiling` for a backward pass, which must return False. Not called for optimizers.
        name: id of the name of the span; an optimizer's name is in `known`.
        category: category of the span.
    """

    kind: Usual
    steps: object
    known: dict[int, Any]
    condition: Callable[[], bool] | None
    name: int
    category: int
