"""Exchanges through operators: those of DTensor, of functional collectives and of compiled graphs.

They call `torch.ops._c10d_functional`, whose C++ code queues the exchange and does not call `torch.distributed`. An
operator is an object that Dynamo, FX and the dispatcher compare, so it stays. It keeps the function that enters C++ in
`_op`, and we replace that one. A tracer calls it too, with tensors without data or below a dispatch mode: such a call
exchanges nothing. A mode of the script, such as a counter of exchanges, calls the operator again without the mode.
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

#: operator -> kind of exchange; the first argument is the input, the last positional one the group
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
#: the second is that of versions whose gradients of these operators are in C++
NAMESPACES = ("_c10d_functional", "_c10d_functional_autograd", "_dtensor")
#: replacements that TorchScript knows by their address, which no other object may have later
_known: list[Any] = []


class Operators:
    """Record exchanges that operators make, and the waits for them.

    Args:
        host: the session.
        inside: whether the thread is in an exchange that is recorded already.
        modes: returns the number of dispatch modes of the thread.
        level: returns the level of the transform that the thread is in, None in none.
    """

    def __init__(self, host: "Host", inside: Inside, modes: Callable[[], int], level: Callable[[], int | None]) -> None:
        self.host = host
        self._inside = inside
        self._modes = modes
        self._level = level
        self._groups = ranks.groups(host)

    def exchange(self, kind: str, name: str) -> base.Closure:
        """Return a function that replaces the entry of an operator that exchanges data.

        Args:
            kind: the kind of exchange.
            name: the name of the operator for TorchScript.
        """
        recorder, category, inside = self.host.recorder, int(Category.COMMUNICATION), self._inside

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
        """Return a function that replaces the entry of the operator that waits for an exchange."""
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
        """Return whether a call with this input reaches the ranks: its tensors have data, and nothing intercepts it."""
        if self._modes() or self._level() is not None:
            return False
        values = value if isinstance(value, (list, tuple)) else (value,)
        return all(tensors.read(each, "is_meta") is False for each in values)

    def _entry(self, replace: base.Closure, name: str) -> base.Closure:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            replacement = replace(original)
            if hash(replacement) != hash(original):
                return original  # without the extension: it would change the hash of the operator
            with self.host.guard("telling TorchScript about an operator"):
                sys.modules["torch.jit._builtins"]._register_builtin(replacement, name)
                _known.append(replacement)
            return replacement

        return make


def targets(host: "Host", inside: Inside) -> list[Target]:
    """Declare the operators that exchange data, in the versions that have them and that tell of modes and transforms.

    Args:
        host: the session.
        inside: whether the thread is in an exchange that is recorded already.
    """
    core = sys.modules["torch"]._C
    modes = getattr(core, "_len_torch_dispatch_stack", None)
    level = getattr(core._functorch, "maybe_current_level", None)
    if modes is None or level is None:
        return []
    operators = Operators(host, inside, modes, level)
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
