"""Record collectives that operators run: in DTensor, in functional collectives and in compiled graphs.

All three call operators of `torch.ops._c10d_functional`. The C++ code of these operators queues the collective and does
not call `torch.distributed`. Dynamo, FX and the dispatcher compare operators by identity, so ms-profiler must not
replace an operator itself. It replaces only the function in the operator's attribute `_op`, which enters C++.

A tracer also calls `_op`: with tensors that have no data, or inside a dispatch mode. This call exchanges nothing, and
ms-profiler does not record it. A dispatch mode of the script, for example a counter of collectives, calls the operator
a second time outside of the mode. ms-profiler records the second call.

It takes 2 ms to look the operators up. So ms-profiler does it when this process joins a process group, because no
operator exchanges anything before that. It does it again after the import of a module that may register more operators.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import RAISED, Inside, Target
from ms_profiler.job.frameworks.torch import ranks, tensors
from ms_profiler.store.format import Category
from ms_profiler.store.names import COMMUNICATION_WAIT

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

#: Operator -> kind of exchange. The first argument of each operator is the input. The last positional one is the group.
KINDS = {
    "all_reduce": "AllReduce",
    "all_reduce_": "AllReduce",
    "all_reduce_coalesced": "AllReduce",
    "all_reduce_coalesced_": "AllReduce",
    "all_gather_into_tensor": "AllGather",
    "all_gather_into_tensor_out": "AllGather",
    "all_gather_into_tensor_coalesced": "AllGather",
    "reduce_scatter_tensor": "ReduceScatter",
    "reduce_scatter_tensor_out": "ReduceScatter",
    "reduce_scatter_tensor_coalesced": "ReduceScatter",
    "all_to_all_single": "AllToAll",
    "shard_dim_alltoall": "AllToAll",
    "broadcast": "Broadcast",
    "broadcast_": "Broadcast",
}
WAIT = "wait_tensor"
#: Namespaces of the operators. The second one exists in versions of PyTorch that compute the gradients of these
#: operators in C++.
NAMESPACES = ("_c10d_functional", "_c10d_functional_autograd", "_dtensor")
#: modules of PyTorch that register operators of these namespaces; the last one exists up to PyTorch 2.4
REGISTERING = (
    "torch.distributed._functional_collectives",
    "torch.distributed.tensor._collective_utils",
    "torch.distributed._tensor._collective_utils",
)
#: whether this thread is inside a collective that already has a span
exchanging = Inside()
#: Our replacements of `_op`. TorchScript identifies functions by their address, so they must stay alive.
_known: list[Any] = []


class Operators:
    """Record collectives that operators run, and the waits for them.

    Args:
        host: the session, which receives the records.
        modes: PyTorch's function that returns how many dispatch modes are active on this thread.
        level: PyTorch's function that returns the level of this thread's functorch transform; None outside of one.
    """

    def __init__(self, host: "Host", modes: Callable[[], int], level: Callable[[], int | None]) -> None:
        self.host = host
        self._modes = modes
        self._level = level
        self._groups = ranks.groups(host)

    def exchange(self, kind: str, name: str) -> base.Closure:
        """Return a decorator for the function of an operator that exchanges data.

        Args:
            kind: the kind of exchange, for example "AllReduce".
            name: the name under which TorchScript knows the operator.
        """
        recorder, category, inside = self.host.recorder, int(Category.COMMUNICATION), exchanging

        def before(*args: Any, **kwargs: Any) -> int | None:
            if inside.value or not args or not self._real(args[0]):
                return None
            token = 0
            with self.host.guard("naming an exchange of an operator"):
                group = self._groups.name(kwargs.get("group_name", args[-1]))
                if group:
                    token = recorder.begin(recorder.intern(f"{kind}@{group}"), category, tensors.size(args[0]))
            inside.value = True
            return token

        def after(token: int, result: Any, reason: BaseException | None) -> None:
            inside.value = False
            recorder.end(token, 0 if reason is None else RAISED)

        return self._entry(base.around(self.host, "recording an exchange of an operator", before, after), name)

    def wait(self, name: str) -> base.Closure:
        """Return a decorator for the function of the operator that waits for an exchange.

        Args:
            name: the name under which TorchScript knows the operator.
        """
        recorder = self.host.recorder
        usual = recorder.intern(COMMUNICATION_WAIT)

        def before(*args: Any, **_: Any) -> int | None:
            if not args or not self._real(args[0]):
                return None
            return base.begin(recorder, usual, Category.COMMUNICATION)

        def after(token: int, result: Any, reason: BaseException | None) -> None:
            recorder.end(token, 0 if reason is None else RAISED)

        return self._entry(base.around(self.host, "recording a wait of an operator", before, after), name)

    def _real(self, value: Any) -> bool:
        """Return whether a call with this input exchanges data: its tensors have data, and no mode intercepts it."""
        if self._modes() or self._level() is not None:
            return False
        values = value if isinstance(value, (list, tuple)) else (value,)
        return all(tensors.read(each, "is_meta") is False for each in values)

    def _entry(self, replace: base.Closure, name: str) -> base.Closure:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            if any(original is known for known in _known):
                return original  # this operator has our replacement already, from an earlier call of `targets`
            replacement = replace(original)
            if hash(replacement) != hash(original):
                return original  # a replacement in Python, without the extension: the operator's hash would change
            with self.host.guard("telling TorchScript about an operator"):
                sys.modules["torch.jit._builtins"]._register_builtin(replacement, name)
                _known.append(replacement)
            return replacement

        return make


def targets(host: "Host") -> list[Target]:
    """Return the functions `_op` of the operators that exchange data, to wrap them.

    The list is empty before this process joins a process group. It is also empty if this version of PyTorch does not
    report dispatch modes and transforms.

    Args:
        host: the session, which receives the records.
    """
    core = sys.modules["torch"]._C
    modes = getattr(core, "_len_torch_dispatch_stack", None)
    level = getattr(core._functorch, "maybe_current_level", None)
    if modes is None or level is None or not ranks.joined():
        return []
    operators = Operators(host, modes, level)
    found = []
    for space in NAMESPACES:
        there = getattr(sys.modules["torch"].ops, space)
        for name in (*KINDS, WAIT):
            if getattr(there, name, None) is None:
                continue
            full = f"{space}::{name}"
            closure = operators.wait(full) if name == WAIT else operators.exchange(KINDS[name], full)
            for part in ("", ".default"):
                path = f"ops.{space}.{name}{part}._op"
                found.append(Target("torch", path, closure=closure, group=f"torch.ops.{space}"))
    return found
