"""The usual cases of hooks, which the extension does without Python; see native/steps.h."""

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple


class Usual(IntEnum):
    """The hooks whose usual case the extension does without Python."""

    FORWARD = 1
    BACKWARD = 2
    OPTIMIZER_BEGINS = 3
    OPTIMIZER_ENDS = 4


class Shortcut(NamedTuple):
    """The usual case of a hook, which the extension does without Python.

    Attributes:
        kind: the hook.
        steps: the `Steps` of the session.
        known: labels by id: of modules, or of the classes of optimizers, whose label is (name, argument of the span).
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
