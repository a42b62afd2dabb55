"""Read the nodes of autograd's graph before some backward passes, to find the module of each backward operator.

The order in which a backward pass runs its operators does not show to which modules they belong.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import autograd
from ms_profiler.job.frameworks.torch import tensors

if TYPE_CHECKING:
    from ms_profiler.job.host import Host


class Tape(autograd.Tape):
    """Read autograd's graph right before its backward pass.

    Args:
        host: the session, which stores the nodes.
        watch: a function that switches on or off whether every call of a module is reported to this object.
    """

    def __init__(self, host: "Host", watch: Callable[[bool], None]) -> None:
        super().__init__(host, watch)
        self._number = sys.modules["torch.autograd"]._get_sequence_nr
        self._function = sys.modules["torch._C"]._FunctionBase
        self._since = 0

    def begin(self) -> None:
        """Note the number of autograd's next node; the modules of older nodes cannot be found."""
        self._since = self.number()

    def number(self) -> int:
        """Return the number that autograd will give the next node."""
        return int(self._number())

    def called(self, name: str, begin: int) -> None:
        """Note that a call of a module ended.

        Args:
            name: path of the module.
            begin: the result of `number` at the begin of the call.
        """
        end = self.number()
        if begin < self._since:  # the call began before ms-profiler noted calls, so its nodes are unknown
            self._since = end
        elif end > begin:
            self.calls.append((begin - 1, end, name))

    def backward(self, roots: Any, inputs: Any = ()) -> None:
        """Store the nodes that a backward pass runs.

        Args:
            roots: the tensors with which the backward pass begins.
            inputs: the tensors whose gradients are requested; empty for all leaves.
        """
        with self.host.guard("reading autograd's graph"):
            nodes = [node for each in roots if (node := tensors.read(each, "grad_fn")) is not None]
            if len(nodes) == len(roots) and not inputs:
                made = autograd.run(autograd.read(nodes, id, self._parts), lambda _: True)
                self._late |= bool(made) and made[0][0] < self._since
                self.write_nodes([] if made and made[0][0] < self._since else made)

    def _parts(self, node: Any) -> autograd.Parts:
        """Return number, name and receivers of a node, without methods that an autograd function may override."""
        own = self._function
        if issubclass(type(node), own):
            return own._sequence_nr(node), own.name(node), own.next_functions.__get__(node)
        return autograd.parts(node)


def supported() -> bool:
    """Return whether this version of PyTorch reports the number of autograd's next node."""
    numbered = hasattr(sys.modules.get("torch.autograd"), "_get_sequence_nr")
    return numbered and hasattr(getattr(sys.modules.get("torch._C"), "_FunctionBase", None), "_sequence_nr")
