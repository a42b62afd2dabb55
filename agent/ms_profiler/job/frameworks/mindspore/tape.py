"""Read the nodes of autograd's graph in pynative mode, so that the analysis finds the node that launched a kernel.

Autograd numbers its nodes, but MindSpore does not report the number of the newest node. So this module makes a view of
a private tensor and reads the number of the view's node. No kernel runs for a view.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import autograd
from ms_profiler.job.frameworks.autograd import LEAF, Node
from ms_profiler.job.frameworks.mindspore import tensors

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: A function may return nested tuples. Its tensors are found down to this level.
DEPTH = 3


class Tape(autograd.Tape):
    """Read autograd's graph after a forward pass and before its backward pass.

    Args:
        host: the session, which stores the nodes.
        watch: a function that switches on or off whether every call of a cell is reported to this object.
    """

    def __init__(self, host: "Host", watch: Callable[[bool], None]) -> None:
        super().__init__(host, watch)
        self._probe: Any = None
        self.forget()

    def forget(self) -> None:
        """Forget the noted calls of cells and the nodes."""
        super().forget()
        self._open = False
        self._root = self._depth = 0
        self._nodes: dict[int, Node] = {}

    def useful(self) -> bool:
        """Return whether kernels are recorded now and MindSpore runs on a CPU in pynative mode."""
        context = sys.modules["mindspore.context"]
        if context._get_mode() == context.GRAPH_MODE or context.get_context("device_target") != "CPU":
            return False
        return super().useful()

    def began(self, function: Any) -> None:
        """Note that the forward pass of a function or cell begins."""
        self.forget()
        with self.host.guard("reading autograd's numbers"):
            if self._probe is None:
                mindspore = sys.modules["mindspore"]
                self._probe = mindspore.Parameter(mindspore.Tensor([1.0], mindspore.float32), name="probe")
            self._root, self._open = id(function), True

    @property
    def between_cells(self) -> bool:
        """Return whether a forward pass is open, and no cell of it runs now."""
        return self._open and self._depth == 0

    def number(self) -> int | None:
        """Return autograd's number of the newest node; None while gradients are off or no graph is read."""
        if self._open:
            with self.host.guard("reading autograd's numbers"):
                node = self._probe.view(1)._grad_node
                return None if node is None else int(node._sequence_nr())
        return None

    def cell_began(self) -> int | None:
        """Note that a call of a cell begins; return autograd's number of the newest node, None if no graph is read."""
        self._depth += 1
        return self.number()

    def cell_ended(self, cell: int, name: str, begin: int | None) -> None:
        """Note that a call of a cell ended.

        Args:
            cell: id of the cell.
            name: path of the cell.
            begin: the result of `cell_began` for this call.
        """
        self._depth -= 1
        end = self.number()
        if begin is not None and end is not None:
            self.calls.append((begin, end, name))
        elif self._depth == 0 and cell == self._root:  # no numbers: gradients are off before and after this call
            self.calls.append((-1, LEAF, name))

    def ended(self, result: Any) -> None:
        """Read the graph that leads to the result of a forward pass."""
        if self._open:
            self._open = False
            with self.host.guard("reading autograd's graph"):
                self._nodes = autograd.read(_roots(result, DEPTH), lambda node: int(node._unique_id()))

    def backward(self, gradient: Any, weights: Any) -> None:
        """Store the nodes that a backward pass runs.

        Args:
            gradient: MindSpore's gradient operation; its attributes tell whether inputs or parameters get gradients.
            weights: the parameters that get gradients: a sequence of parameters, one parameter, or None.
        """
        if not self._nodes:
            return
        with self.host.guard("storing autograd's graph"):
            asked = list(weights) if issubclass(type(weights), (tuple, list)) else [weights]
            known = {node._unique_id() for each in asked if (node := _node(each)) is not None}
            inputs = gradient.get_all or not gradient.get_by_list or getattr(gradient, "get_by_position", False)
            self.write_nodes(autograd.run(self._nodes, lambda key: inputs or key in known))
        self._nodes = {}


def _roots(result: Any, depth: int) -> list[Any]:
    """Return the autograd nodes of the tensors in the result of a function."""
    if issubclass(type(result), (tuple, list)):
        return [node for each in result for node in _roots(each, depth - 1)] if depth else []
    node = _node(result)
    return [] if node is None else [node]


def _node(tensor: Any) -> Any:
    """Return the node of autograd's graph that made a tensor; None if no node made it, or if it is no tensor."""
    return tensors.read(tensor, "_grad_node") if tensors.is_tensor(tensor) else None


def supported(host: "Host") -> bool:
    """Return whether this process records kernels and this version of MindSpore gives access to autograd's nodes.

    Args:
        host: the session, which knows whether this process has a result directory of its own.
    """
    from ms_profiler.job.frameworks.mindspore import takeover

    extension = sys.modules.get("mindspore._c_expression")
    tensor, profiler = getattr(extension, "TensorPy", None), getattr(extension, "Profiler", None)
    if not host.owner or takeover.left_running or not hasattr(tensor, "_grad_node") or profiler is None:
        return False
    return profiler.get_instance("CPU") is not None
