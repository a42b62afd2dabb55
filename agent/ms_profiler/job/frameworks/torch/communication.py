"""Record collectives and messages between ranks, with their group and bytes.

The hooks wrap functions of `torch.distributed`, which many modules import by name. Functions that exchange objects need
no hook, because they call functions that exchange tensors. Dynamo has a table of replacements for PyTorch's functions.
ms-profiler adds the wrapped functions to this table. It computes the bytes of the input from its shape and type, and
reads no value. The times are measured on the host, which for NCCL only queues the work.

Some collectives do not call these functions. DTensor and compiled graphs call operators instead, which the module
`functional` records. In DistributedDataParallel, C++ code exchanges the gradients. These collectives are visible in
another way: gloo reports operators from its own threads (native/operators.h), and CUPTI reports NCCL's kernels. Neither
reports group or bytes. For DistributedDataParallel, the module `replicas` finds both.
"""

import inspect
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import RAISED, Target
from ms_profiler.job.frameworks.torch import ranks, tensors
from ms_profiler.job.frameworks.torch.functional import exchanging
from ms_profiler.job.frameworks.torch.ranks import DISTRIBUTED
from ms_profiler.store.format import Category
from ms_profiler.store.names import COMMUNICATION_WAIT, MESSAGE_WAIT, PEER, PEER_IN_GROUP

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

COMMUNICATION = "torch.distributed"
FUNCTIONAL = "torch.distributed._functional_collectives"
#: function of `torch.distributed` -> (kind of exchange, name of the parameter that holds the input)
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
#: functions that only queue a message; they return an object with which the script waits for the message
QUEUED = ("isend", "irecv")
#: Function -> the names of two parameters, of which a call sets one. Both name the rank at the other end of a message.
#: The first has the number of this rank in the job, the second its number in the group.
PEERS = {
    "send": ("dst", "group_dst"),
    "isend": ("dst", "group_dst"),
    "recv": ("src", "group_src"),
    "irecv": ("src", "group_src"),
}
#: Limit of ranks and of tags of messages. A record stores both in one number: rank * _WORD + tag.
_WORD = 2**32
#: function -> another function that it calls to do the exchange, in versions of PyTorch that have the other function
CALLERS = {"all_gather_into_tensor": "all_gather_single", "reduce_scatter_tensor": "reduce_scatter_single"}


class OfClass:
    """Replace a method of a C++ class, but leave the method as it is for objects of Python subclasses.

    For an object of a Python subclass, pybind11 would take our replacement for an override. Then the C++ code would
    call the replacement, and the replacement would call the C++ code, without end.

    Args:
        kind: the C++ class.
        original: method of the C++ class.
        replacement: function that replaces the method.
    """

    def __init__(self, kind: type, original: Any, replacement: Any) -> None:
        self._kind, self._original, self._replacement = kind, original, replacement

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self._replacement
        of_c = type(instance) is self._kind or type(instance).__module__ == self._kind.__module__
        return (self._replacement if of_c else self._original).__get__(instance, owner)


class Collectives:
    """Record collectives and, once for each group, its ranks. If collectives are nested, record only the outermost."""

    def __init__(self, host: "Host") -> None:
        self.host = host
        self._groups = ranks.groups(host)
        #: object with which the script can wait for a queued message -> id of the name of the span of this wait
        self._waits: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def function(self, kind: str, given: str, name: str) -> base.Closure:
        """Return a decorator for a function that exchanges data.

        Args:
            kind: the kind of exchange, for example "AllReduce".
            given: the name of the parameter that holds the input.
            name: the name of the function.
        """
        queued, others = name in QUEUED, PEERS.get(name, ())
        host, named, inside, waits = self.host, self._groups.name, exchanging, self._waits
        recorder, category = host.recorder, int(Category.COMMUNICATION)

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            labels = [recorder.intern(label) for label in (PEER, PEER_IN_GROUP)] if others else []
            places = {name: index for index, name in enumerate(inspect.signature(original).parameters)}

            def argument(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
                place = places.get(name, -1)
                return args[place] if 0 <= place < len(args) else kwargs.get(name)

            def note(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
                """Record the other rank and the tag of a message; return the tag if the call names no rank, else -1."""
                tag = argument("tag", args, kwargs) or 0
                if type(tag) is not int or not 0 <= tag < _WORD:
                    return -1
                for label, other in zip(labels, others, strict=True):
                    peer = argument(other, args, kwargs)
                    if type(peer) is int and 0 <= peer < _WORD:
                        recorder.instant(label, category, peer * _WORD + tag)
                        return -1
                return tag

            def before(*args: Any, **kwargs: Any) -> list[int] | None:
                if inside.value:
                    return None
                token, wait, tag = 0, 0, -1
                with host.guard("naming a collective"):
                    group = named(argument("group", args, kwargs))
                    if group:
                        label = recorder.intern(f"{kind}@{group}")
                        token = recorder.begin(label, category, tensors.size(argument(given, args, kwargs)))
                        wait = recorder.intern(f"{MESSAGE_WAIT}{kind}@{group}") if queued else 0
                        tag = note(args, kwargs) if others else -1
                inside.value = True
                return [token, wait, tag]

            def after(tokens: list[int], result: Any, reason: BaseException | None) -> None:
                inside.value = False
                if tokens[2] >= 0 and type(result) is int and result >= 0:  # `recv` returns the rank of the sender
                    recorder.instant(labels[0], category, result * _WORD + tokens[2])
                recorder.end(tokens[0], 0 if reason is None else RAISED)
                if tokens[1] and result is not None:
                    waits[result] = tokens[1]

            replacement = base.around(host, "recording a collective", before, after)(original)
            with host.guard("telling Dynamo about a collective"):
                _register_with_dynamo(original, replacement)
            return replacement

        return make

    def coalesced(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the replacement of `_broadcast_coalesced`, which joins parameters or buffers and broadcasts them.

        The original is a C++ function with the arguments `(group, tensors, largest bytes of a joined tensor, source)`.
        """
        named, recorder, category = self._groups.name, self.host.recorder, int(Category.COMMUNICATION)
        inside = exchanging

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
        """Return the replacement of the function that makes the group of all ranks and gives this process its rank."""

        def before(*_: Any, **__: Any) -> bool:
            return True

        def after(state: bool, result: Any, reason: BaseException | None) -> None:
            if reason is None:
                module = sys.modules[DISTRIBUTED]
                self.host.become(module.get_rank(), module.get_world_size())
                self._groups.name(None)
                for call in list(ranks.when_joined):
                    call()

        return base.around(self.host, "learning the rank", before, after)(original)

    def wait(self, original: Callable[..., Any]) -> Any:
        """Return the replacement of `Work.wait`, a method of a C++ class, which waits for a queued collective."""
        inside, recorder, waits = exchanging, self.host.recorder, self._waits
        usual = recorder.intern(COMMUNICATION_WAIT)

        def before(work: Any, *_: Any, **__: Any) -> list[int] | None:
            if inside.value:
                return None
            return [base.begin(recorder, waits.get(work, usual) if waits else usual, Category.COMMUNICATION)]

        def after(tokens: list[int], result: Any, reason: BaseException | None) -> None:
            recorder.end(tokens[0], 0 if reason is None else RAISED)

        replacement = base.around(self.host, "recording a wait for a collective", before, after)(original)
        return OfClass(sys.modules[DISTRIBUTED].Work, original, replacement)


def _is_new() -> bool:
    """Return whether the import of PyTorch is still running, so that the script cannot hold its functions yet."""
    specs = (getattr(sys.modules.get(name), "__spec__", None) for name in ("torch", DISTRIBUTED))
    return any(getattr(spec, "_initializing", False) for spec in specs)


def _register_with_dynamo(original: Any, replacement: Any) -> None:
    """Make Dynamo treat our replacement as the original; needed if Dynamo made its table before we replaced it."""
    table = getattr(sys.modules.get(FUNCTIONAL), "traceable_collective_remaps", {})
    if original in table:
        table[replacement] = table[original]


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap: those that exchange data, wait for exchanges, or make the group of all ranks."""
    there = vars(sys.modules[DISTRIBUTED])
    collectives = Collectives(host)
    # PyTorch compares `isend` and `irecv` by identity with a function that the script passes. After the import of
    # PyTorch, the script may hold the original functions. Then these two must not be replaced.
    left_out = () if _is_new() else QUEUED
    return [
        *(
            Target(DISTRIBUTED, name, closure=collectives.function(kind, given, name), copies=True)
            for name, (kind, given) in KINDS.items()
            if name in there and CALLERS.get(name) not in there and name not in left_out
        ),
        Target(COMMUNICATION, "_broadcast_coalesced", closure=collectives.coalesced),
        Target(DISTRIBUTED, "init_process_group", closure=collectives.begun, copies=True),
        Target(DISTRIBUTED, "Work.wait", closure=collectives.wait),
    ]
