"""Find out from the description of a compiled graph whether the graph trains or is only a forward pass.

A job may evaluate its network by a compiled function. Python sees only the call of this function, and a call of a
function that computes gradients looks the same. So a call counts as an evaluation only if each graph of the function
computes no gradient and has no effect, such as a changed parameter.
"""

from enum import IntEnum
from typing import Any

from ms_profiler.job.frameworks.base import Labels
from ms_profiler.store import anf_ir

#: Names of the parameters in which MindSpore's optimizers count their calls: those of `nn`, and those of `mint`.
COUNTERS = (b"global_step", b"state_step")
#: descriptions that are larger, in bytes, are not read: Python reads some 10 MB/s
MOST = 4 << 20
#: first part of the names of operators that compute gradients
GRADIENTS = b"Gradients/"
#: types of nodes that may read the state of side effects, and change nothing
_PASSIVE = (b"UpdateState", b"Load", b"Depend", b"MakeTuple")


class Effect(IntEnum):
    """What a compiled graph does: the smaller the number, the less is known to be missing."""

    TRAINS = 0  # it has an optimizer
    UNKNOWN = 1  # it may compute gradients, or have another effect
    FORWARD = 2  # it has no gradients and no effect


class Effects:
    """The effects of the compiled cells and functions of this process."""

    def __init__(self) -> None:
        self._labels: Labels[Effect] = Labels(lambda subject: Effect.UNKNOWN)
        #: id of a cell or function -> the effect of its graphs
        self.known = self._labels.known

    def compiled(self, subject: Any, effect: Effect) -> None:
        """Note the effect of a graph. If a cell or function has several graphs, the smallest effect counts."""
        known = self.known.get(id(subject))
        if known is None or effect < known:
            self._labels.put(subject, effect)


effects = Effects()


def of(description: bytes) -> Effect:
    """Return what a graph does: `TRAINS`, `UNKNOWN` or `FORWARD`.

    Args:
        description: MindSpore's description of the graph, a `ModelProto`.
    """
    counts = any(name in description for name in COUNTERS)
    if len(description) > MOST or (GRADIENTS in description and not counts):
        return Effect.UNKNOWN
    states: set[bytes] = set()
    active: list[list[bytes]] = []
    complete = GRADIENTS not in description
    for node in anf_ir.nodes(description):
        complete &= node.type not in anf_ir.CALLS  # the description lacks the called graph
        if node.type == b"UpdateState":
            states |= {node.name, *node.inputs[:1]}
        elif node.type not in _PASSIVE:
            active.append(node.inputs)
    writing = [inputs for inputs in active if not states.isdisjoint(inputs)]
    # a schedule may read such a parameter, but only an optimizer writes it
    if counts and any(name.rpartition(b".")[2] in COUNTERS for inputs in writing for name in inputs):
        return Effect.TRAINS
    return Effect.FORWARD if complete and not writing else Effect.UNKNOWN
