"""Collectives and messages between ranks: which, over which group, and how many bytes.

They are functions of `torch.distributed`, copied by value into many modules; functions for objects call those for
tensors. Dynamo knows them by a table of what to put in their place, in which ours stand for the originals. Bytes are
those of the input, from shape and type; no value is read. Times are those of the host, which for NCCL only queues the
work. What DistributedDataParallel and DTensor exchange in C++ does not pass here: gloo reports it among the operators,
from the threads that do it (native/operators.h), and NCCL's kernels come from CUPTI; neither tells group or bytes.
"""

import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job import rank
from ms_profiler.job.frameworks.base import RAISED, Inside, Target
from ms_profiler.job.frameworks.torch import closures
from ms_profiler.job.frameworks.torch.ranks import DISTRIBUTED, Groups
from ms_profiler.store.format import Category
from ms_profiler.store.names import COMMUNICATION_WAIT

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

FUNCTIONAL = "torch.distributed._functional_collectives"
#: function -> what it does, its parameter that is the input
KINDS = {
    "all_reduce": ("AllReduce", "tensor"),
    "all_reduce_coalesced": ("AllReduce", "tensors"),
    "all_gather": ("AllGather", "tensor"),
    "all_gather_single": ("AllGather", "input_tensor"),
    "all_gather_into_tensor": ("AllGather", "input_tensor"),
    "all_gather_coalesced": ("AllGather", "input_tensor_list"),
    "reduce_scatter": ("ReduceScatter", "input_list"),
    "reduce_scatter_single": ("ReduceScatter", "input"),
    "reduce_scatter_tensor": ("ReduceScatter", "input"),
    "reduce": ("Reduce", "tensor"),
    "broadcast": ("Broadcast", "tensor"),
    "gather": ("Gather", "tensor"),
    "scatter": ("Scatter", "scatter_list"),
    "all_to_all": ("AllToAll", "input_tensor_list"),
    "all_to_all_single": ("AllToAll", "input"),
    "send": ("Send", "tensor"),
    "isend": ("Send", "tensor"),
    "recv": ("Receive", "tensor"),
    "irecv": ("Receive", "tensor"),
    "barrier": ("Barrier", ""),
    "monitored_barrier": ("Barrier", ""),
}
#: functions that only call another one, in the versions that have it
CALLERS = {"all_gather_into_tensor": "all_gather_single", "reduce_scatter_tensor": "reduce_scatter_single"}


def size(value: Any) -> int:
    """Return the bytes of a tensor, or of those in a sequence, without waiting for any."""
    if isinstance(value, (list, tuple)):
        return sum(map(size, value))
    return int(getattr(value, "nbytes", 0))


class Collectives:
    """Record collectives, the outermost where one calls another, and once for each group who is in it."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        self._groups = Groups(session)
        self._inside = Inside()

    def function(self, kind: str, given: str) -> closures.Closure:
        """Return what makes the replacement of a function that does `kind`; `given` is its input."""
        session, tracing, named, inside = self.session, closures.traced(), self._groups.name, self._inside
        recorder, category = session.recorder, int(Category.COMMUNICATION)

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            places = {name: index for index, name in enumerate(inspect.signature(original).parameters)}

            def argument(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
                place = places.get(name, -1)
                return args[place] if 0 <= place < len(args) else kwargs.get(name)

            def call(*args: Any, **kwargs: Any) -> Any:
                if tracing() or inside.value:
                    return original(*args, **kwargs)
                token = 0
                with session.guard("naming a collective"):
                    group = named(argument("group", args, kwargs))
                    if group:
                        label = recorder.intern(f"{kind}@{group}")
                        token = recorder.begin(label, category, size(argument(given, args, kwargs)))
                inside.value = True
                try:
                    result = original(*args, **kwargs)
                except BaseException:
                    recorder.end(token, RAISED)
                    raise
                finally:
                    inside.value = False
                recorder.end(token)
                return result

            replacement = closures.replace(original, call)
            with session.guard("telling Dynamo about a collective"):
                _pass_for(original, replacement)
            return replacement

        return make

    def begun(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of what makes the group of all ranks: from there on this process has a rank."""
        session = self.session

        def init_process_group(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            with session.guard("learning the rank"):
                module = sys.modules[DISTRIBUTED]
                rank.settle(session, module.get_rank(), module.get_world_size())
                self._groups.name(None)
            return result

        return closures.replace(original, init_process_group)

    def wait(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of the wait for a collective that was queued, a method of a class in C++."""
        inside = self._inside
        recorded = closures.recorded(self.session, COMMUNICATION_WAIT, Category.COMMUNICATION)(original)

        def wait(*args: Any, **kwargs: Any) -> Any:
            return (original if inside.value else recorded)(*args, **kwargs)

        return closures.replace(original, wait)


def _pass_for(original: Any, replacement: Any) -> None:
    """Have Dynamo take ours for the original where its table was made before us."""
    table = getattr(sys.modules.get(FUNCTIONAL), "traceable_collective_remaps", {})
    if original in table:
        table[replacement] = table[original]


def targets(session: "Session") -> list[Target]:
    """Declare what is wrapped around communication."""
    there = vars(sys.modules[DISTRIBUTED])
    collectives = Collectives(session)
    return [
        *(
            Target(DISTRIBUTED, name, closure=collectives.function(kind, given), copies=True)
            for name, (kind, given) in KINDS.items()
            if name in there and CALLERS.get(name) not in there
        ),
        Target(DISTRIBUTED, "init_process_group", closure=collectives.begun, copies=True),
        Target(DISTRIBUTED, "Work.wait", closure=collectives.wait),
    ]
