"""Record collectives and messages between ranks, with their group and bytes.

MindSpore offers collectives and messages as primitives, for example `ops.AllReduce`, and as functions in
`communication.comm_func`, `ops.communication` and `mint.distributed`. Each function calls a primitive. ms-profiler
records the call of the primitive as `AllReduce@group`. It does not replace the functions themselves: MindSpore may
compile them into a graph, and a function of ours would change the graph.

ms-profiler computes the bytes of the input from its shape and type, and reads no value. It measures the times on the
host, which in most cases only queues the work. The module `exchanges` records the collectives of compiled graphs.
"""

import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base, trees
from ms_profiler.job.frameworks.base import Target
from ms_profiler.job.frameworks.mindspore import ranks, tensors
from ms_profiler.job.frameworks.mindspore.ranks import MANAGEMENT
from ms_profiler.store.format import Category
from ms_profiler.store.names import COMMUNICATION_WAIT

if TYPE_CHECKING:
    from ms_profiler.job.host import Host

PRIMITIVES = "mindspore.ops.operations.comm_ops"
#: Module with the primitives that MindSpore generates for the functions of `comm_func` and others. The name of each of
#: these primitives begins with one of `PREFIXES`.
GENERATED = "mindspore.ops.auto_generate.gen_ops_prim"
PREFIXES = ("InnerComm", "DistComm")
HANDLES = ("mindspore.communication.comm_func", "mindspore.ops.function.comm_func")

#: begin of a primitive's name, without the prefix -> kind of exchange between ranks; the first entry that fits counts
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
#: possible names of the parameter that holds a collective's input, in order of preference. Other parameters that hold
#: tensors receive results.
INPUTS = ("input", "input_list", "scatter_list")


def kind_of(primitive: str) -> str:
    """Return the kind of a communication primitive, as MindSpore's documents name it; empty for other primitives."""
    for prefix in PREFIXES:
        primitive = primitive.removeprefix(prefix)
    return next((kind for begin, kind in KINDS.items() if primitive.startswith(begin)), "")


class Collectives:
    """Record each collective, and once for each group of ranks its members."""

    def __init__(self, host: "Host") -> None:
        self.host = host
        self._labels: dict[tuple[str, str], int] = {}
        self._notes = ranks.notes(host)

    def primitive(self, kind: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return a decorator for `__call__` of the primitives of one kind, for example "AllReduce".

        The decorator finds the group of ranks and the input. In primitives that MindSpore generates, the group is a
        parameter. In other primitives, the group is an attribute, and the input is the first parameter.
        """
        host, recorder, labelled = self.host, self.host.recorder, self._label

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            places = {name: index for index, name in enumerate(inspect.signature(original).parameters)}
            group_at = places.get("group", 0)
            input_at = next((places[name] for name in INPUTS if name in places), 1 if not group_at else 0)

            def before(*args: Any, **_: Any) -> list[int]:
                given = args[input_at] if 0 < input_at < len(args) else None
                group = args[group_at] if 0 < group_at < len(args) else trees.attributes(args[0]).get("group")
                return [base.begin(recorder, labelled(kind, group), Category.COMMUNICATION, tensors.size(given))]

            def after(tokens: list[int], result: Any, reason: BaseException | None) -> None:
                recorder.end(tokens[0], 0 if reason is None else base.flags_of(reason))

            return base.around(host, "naming a collective", before, after)(original)

        return make

    def _label(self, kind: str, group: Any) -> int:
        """Return the id of the name of a collective over a group; note the members of a new group."""
        management = sys.modules[MANAGEMENT]
        # MindSpore names the group of all ranks differently before it knows its communication library
        if type(group) is not str or group == getattr(management, "DEFAULT_WORLD_COMM_GROUP", None):
            group = management.GlobalComm.WORLD_COMM_GROUP
        label = self._labels.get((kind, group))
        if label is None:
            label = self._labels[kind, group] = self.host.recorder.intern(f"{kind}@{group}")
            self._notes.group(group)
            self._notes.rank()
        return label


def targets(host: "Host") -> list[Target]:
    """Return the functions to wrap: the primitives that exchange data between ranks, and the waits for exchanges."""
    collectives = Collectives(host)
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
    record = base.recorded(host, COMMUNICATION_WAIT, Category.COMMUNICATION)
    return [*found, *(Target(module, "CommHandle.wait", closure=record) for module in HANDLES)]
