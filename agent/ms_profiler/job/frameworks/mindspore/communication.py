"""Collectives and messages between ranks: which, over which group, and how many bytes.

MindSpore has them as primitives, `ops.AllReduce` and so on, and as functions in `communication.comm_func`,
`ops.communication` and `mint.distributed`. All of them end in a primitive of its own, and that is recorded, as
`AllReduce@group`: the functions themselves may be captured into a graph, which a function of ours in their place
would change. Bytes are those of the input, from shape and type; no value is read. Times are those of the host, which
in most cases only queues the work. For what a compiled graph communicates see `exchanges`.
"""

import inspect
import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import RAISED, Target, keep_signature
from ms_profiler.job.frameworks.mindspore import ranks
from ms_profiler.job.frameworks.mindspore.ranks import MANAGEMENT
from ms_profiler.store.format import Category
from ms_profiler.store.names import COMMUNICATION_WAIT

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

PRIMITIVES = "mindspore.ops.operations.comm_ops"
#: the primitives behind the functions are generated, named InnerComm* and DistComm*
GENERATED = "mindspore.ops.auto_generate.gen_ops_prim"
PREFIXES = ("InnerComm", "DistComm")
HANDLES = ("mindspore.communication.comm_func", "mindspore.ops.function.comm_func")

#: begin of a primitive's name, without the prefixes above -> what it does; the first that fits counts
KINDS = {
    "AllReduce": "AllReduce",
    "AllGather": "AllGather",
    "ReduceScatter": "ReduceScatter",
    "Reduce": "Reduce",
    "Broadcast": "Broadcast",
    "AlltoAll": "AllToAll",
    "AllToAll": "AllToAll",
    "CollectiveScatter": "Scatter",
    "CollectiveGather": "Gather",
    "Scatter": "Scatter",
    "Gather": "Gather",
    "Send": "Send",
    "Isend": "Send",
    "Receive": "Receive",
    "Irecv": "Receive",
    "BatchI": "BatchSendReceive",
    "Barrier": "Barrier",
}
#: parameters that are the input, the first that is there; in others results arrive
INPUTS = ("input", "input_list", "scatter_list")


def kind_of(primitive: str) -> str:
    """Return what the primitive of that name does, in the words of the public documents; empty when nothing here."""
    for prefix in PREFIXES:
        primitive = primitive.removeprefix(prefix)
    return next((kind for begin, kind in KINDS.items() if primitive.startswith(begin)), "")


def size(value: Any) -> int:
    """Return the bytes of a tensor, or of those in a sequence, without waiting for any."""
    if isinstance(value, (list, tuple)):
        return sum(map(size, value))
    if hasattr(value, "asnumpy"):
        count: int = math.prod(value.shape)
        return count * int(value.itemsize)
    return 0


class Collectives:
    """Record collectives, and once for each group who is in it."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        self._labels: dict[tuple[str, str], int] = {}
        self._notes = ranks.notes(session)

    def primitive(self, kind: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return what makes the replacement of `__call__` of a primitive that does `kind`.

        The group is a parameter of generated primitives, and an attribute of the others, whose input comes first.
        """
        session, forked = self.session, base.forked
        begin, end = session.recorder.begin, session.recorder.end
        category = int(Category.COMMUNICATION)

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            places = {name: index - 1 for index, name in enumerate(inspect.signature(original).parameters)}
            group_at = places.get("group", -1)
            input_at = next((places[name] for name in INPUTS if name in places), 0 if group_at < 0 else -1)

            def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - stands in for the method
                token = 0
                with session.guard("naming a collective"):
                    given = args[input_at] if 0 <= input_at < len(args) else None
                    group = args[group_at] if 0 <= group_at < len(args) else getattr(self, "group", None)
                    label, taken = labelled(kind, group), size(given)
                    token = begin(label, category, taken)
                    if not token and forked:
                        forked[0].reopen()
                        token = begin(label, category, taken)
                try:
                    result = original(self, *args, **kwargs)
                except BaseException:
                    end(token, RAISED)
                    raise
                end(token)
                return result

            return keep_signature(original, __call__)

        labelled = self._label
        return make

    def _label(self, kind: str, group: Any) -> int:
        """Return the id of the name of a collective over a group, noting who is in the group if it is new."""
        management = sys.modules[MANAGEMENT]
        # the group of all ranks has another name before the back end is known
        if group is None or group == getattr(management, "DEFAULT_WORLD_COMM_GROUP", None):
            group = management.GlobalComm.WORLD_COMM_GROUP
        label = self._labels.get((kind, group))
        if label is None:
            label = self._labels[kind, group] = self.session.recorder.intern(f"{kind}@{group}")
            self._notes.group(group)
            self._notes.rank()
        return label


def targets(session: "Session") -> list[Target]:
    """Declare what is wrapped around communication."""
    collectives = Collectives(session)
    found = []
    for module, generated in ((PRIMITIVES, False), (GENERATED, True)):
        names = [
            name
            for name, value in vars(sys.modules.get(module, inspect)).items()
            if isinstance(value, type) and name.startswith(PREFIXES if generated else "") and kind_of(name)
        ]
        group = f"{module}.{'*Comm*' if generated else '*'}"
        found += [
            Target(module, f"{name}.__call__", closure=collectives.primitive(kind_of(name)), group=group)
            for name in names or ["AllReduce"]
        ]
    record = _wait(session)
    return [*found, *(Target(module, "CommHandle.wait", closure=record) for module in HANDLES)]


def _wait(session: "Session") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    recorder = session.recorder
    label, category = recorder.intern(COMMUNICATION_WAIT), int(Category.COMMUNICATION)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def wait(self: Any) -> Any:
            token = recorder.begin(label, category)
            try:
                result = original(self)
            except BaseException:
                recorder.end(token, RAISED)
                raise
            recorder.end(token)
            return result

        return keep_signature(original, wait)

    return make
