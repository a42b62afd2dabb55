"""Collectives and messages between ranks, with their group and bytes.

They are functions of `torch.distributed`, which many modules import by name; functions for objects call those for
tensors. Dynamo has a table of replacements for them, in which our functions take the place of the originals. The bytes
of the input follow from shape and type; no value is read. The times are those of the host, which for NCCL only queues
the work. DTensor and compiled graphs call operators instead (`functional`). C++ code sends the gradients of
DistributedDataParallel. gloo reports such exchanges among the operators, from its own threads (native/operators.h);
CUPTI reports NCCL's kernels. Neither reports group or bytes; `replicas` finds those of DistributedDataParallel.
"""

import inspect
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import RAISED, Inside, Target
from ms_profiler.job.frameworks.torch import functional, ranks, tensors
from ms_profiler.job.frameworks.torch.ranks import DISTRIBUTED
from ms_profiler.store.format import Category
from ms_profiler.store.names import COMMUNICATION_WAIT, MESSAGE_WAIT

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

COMMUNICATION = "torch.distributed"
FUNCTIONAL = "torch.distributed._functional_collectives"
#: function -> kind of exchange, parameter that is the input
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
#: functions that queue a message; the returned object waits for it
QUEUED = ("isend", "irecv")
#: functions that only call another exchange, in the versions that have the latter
CALLERS = {"all_gather_into_tensor": "all_gather_single", "reduce_scatter_tensor": "reduce_scatter_single"}


class Collectives:
    """Record collectives (only the outermost where one calls another), and the members of each group once."""

    def __init__(self, host: "Host") -> None:
        self.host = host
        self._groups = ranks.groups(host)
        #: whether the thread is in an exchange that is recorded already
        self.inside = Inside()
        #: queued messages -> id of the name of a wait for it
        self._waits: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def function(self, kind: str, given: str, queued: bool) -> base.Closure:
        """Return a function that replaces an exchange.

        Args:
            kind: its kind.
            given: the name of the parameter that is its input.
            queued: whether it returns a queued message.
        """
        host, named, inside, waits = self.host, self._groups.name, self.inside, self._waits
        recorder, category = host.recorder, int(Category.COMMUNICATION)

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            places = {name: index for index, name in enumerate(inspect.signature(original).parameters)}

            def argument(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
                place = places.get(name, -1)
                return args[place] if 0 <= place < len(args) else kwargs.get(name)

            def before(*args: Any, **kwargs: Any) -> list[int] | None:
                if inside.value:
                    return None
                token = wait = 0
                with host.guard("naming a collective"):
                    group = named(argument("group", args, kwargs))
                    if group:
                        label = recorder.intern(f"{kind}@{group}")
                        token = recorder.begin(label, category, tensors.size(argument(given, args, kwargs)))
                        wait = recorder.intern(f"{MESSAGE_WAIT}{kind}@{group}") if queued else 0
                inside.value = True
                return [token, wait]

            def after(tokens: list[int], result: Any, reason: BaseException | None) -> None:
                inside.value = False
                recorder.end(tokens[0], 0 if reason is None else RAISED)
                if tokens[1] and result is not None:
                    waits[result] = tokens[1]

            replacement = base.around(host, "recording a collective", before, after)(original)
            with host.guard("telling Dynamo about a collective"):
                _pass_for(original, replacement)
            return replacement

        return make

    def coalesced(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of the broadcast of parameters or buffers, which sends them joined in one tensor a
        type; a function in C++: `(group, tensors, bytes of a tensor, source)`."""
        named, recorder, category = self._groups.name, self.host.recorder, int(Category.COMMUNICATION)
        inside = self.inside

        def before(group: Any = None, values: Any = (), *_: Any, **kwargs: Any) -> list[int] | None:
            if inside.value:
                return None
            token = 0
            with self.host.guard("naming a broadcast"):
                name = named(kwargs.get("process_group", group))
                if name:
                    size = tensors.size(kwargs.get("tensors", values))
                    token = recorder.begin(recorder.intern(f"Broadcast@{name}"), category, size)
            inside.value = True
            return [token]

        def after(tokens: list[int], result: Any, reason: BaseException | None) -> None:
            inside.value = False
            recorder.end(tokens[0], 0 if reason is None else RAISED)

        return base.around(self.host, "recording a broadcast", before, after)(original)

    def begun(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of the function that makes the group of all ranks: after it this process has a
        rank."""

        def before(*_: Any, **__: Any) -> bool:
            return True

        def after(state: bool, result: Any, reason: BaseException | None) -> None:
            if reason is None:
                module = sys.modules[DISTRIBUTED]
                self.host.become(module.get_rank(), module.get_world_size())
                self._groups.name(None)

        return base.around(self.host, "learning the rank", before, after)(original)

    def wait(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of the wait for a collective that was queued, a method of a class in C++."""
        inside, recorder, waits = self.inside, self.host.recorder, self._waits
        usual = recorder.intern(COMMUNICATION_WAIT)

        def before(work: Any, *_: Any, **__: Any) -> list[int] | None:
            if inside.value:
                return None
            return [base.begin(recorder, waits.get(work, usual) if waits else usual, Category.COMMUNICATION)]

        def after(tokens: list[int], result: Any, reason: BaseException | None) -> None:
            recorder.end(tokens[0], 0 if reason is None else RAISED)

        return base.around(self.host, "recording a wait for a collective", before, after)(original)


def _pass_for(original: Any, replacement: Any) -> None:
    """Make Dynamo treat our replacement as the original, if Dynamo made its table before the hooks were applied."""
    table = getattr(sys.modules.get(FUNCTIONAL), "traceable_collective_remaps", {})
    if original in table:
        table[replacement] = table[original]


def targets(host: "Host") -> list[Target]:
    """Declare the targets of communication."""
    there = vars(sys.modules[DISTRIBUTED])
    collectives = Collectives(host)
    operators: list[Target] = []
    with host.guard("hooks of operators that exchange data"):
        operators = functional.targets(host, collectives.inside)
    return [
        *(
            Target(DISTRIBUTED, name, closure=collectives.function(kind, given, name in QUEUED), copies=True)
            for name, (kind, given) in KINDS.items()
            if name in there and CALLERS.get(name) not in there
        ),
        Target(COMMUNICATION, "_broadcast_coalesced", closure=collectives.coalesced),
        Target(DISTRIBUTED, "init_process_group", closure=collectives.begun, copies=True),
        Target(DISTRIBUTED, "Work.wait", closure=collectives.wait),
        *operators,
    ]
