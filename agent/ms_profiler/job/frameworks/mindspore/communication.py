"""Collectives and messages between ranks: which, over which group, and how many bytes.

MindSpore has them as primitives, `ops.AllReduce` and so on, and as functions in `communication.comm_func`,
`ops.communication` and `mint.distributed`. All of them end in a primitive of its own, and that is recorded, as
`AllReduce@group`: the functions themselves may be captured into a graph, which a function of ours in their place
would change. Bytes are those of the input, from shape and type; no value is read. Times are those of the host, which
in most cases only queues the work. What a compiled graph communicates is among its kernels.
"""

import inspect
import math
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ms_profiler.job.frameworks import base
from ms_profiler.job.frameworks.base import RAISED, Target, keep_signature
from ms_profiler.store.format import Category, Kind

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

PRIMITIVES = "mindspore.ops.operations.comm_ops"
#: the primitives behind the functions are generated, named InnerComm* and DistComm*
GENERATED = "mindspore.ops.auto_generate.gen_ops_prim"
PREFIXES = ("InnerComm", "DistComm")
HANDLES = ("mindspore.communication.comm_func", "mindspore.ops.function.comm_func")
MANAGEMENT = "mindspore.communication.management"

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
#: Characters of a list of ranks; a longer one is written as ranges.
RANKS_MOST = 4000


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


def ranges(ranks: Iterable[int]) -> str:
    """Return ranks as text: "0,1,2", or "0-2" where that would be too long."""
    listed = list(ranks)
    text = ",".join(map(str, listed))
    if len(text) <= RANKS_MOST:
        return text
    parts: list[list[int]] = []
    for rank in listed:
        if parts and rank == parts[-1][1] + 1:
            parts[-1][1] = rank
        else:
            parts.append([rank, rank])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in parts)


class Collectives:
    """Record collectives, and once for each group who is in it."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        self._labels: dict[tuple[str, str], int] = {}
        self._groups: set[str] = set()

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
            if group not in self._groups:
                self._note(group)
        return label

    def _note(self, group: str) -> None:
        try:
            ranks = sys.modules[MANAGEMENT].get_process_group_ranks(group)
        except Exception:  # noqa: BLE001 - MindSpore cannot tell, and says so in many ways
            return
        self._groups.add(group)
        recorder = self.session.recorder
        now, label = recorder.now(), recorder.intern(f"group {group} ranks {ranges(ranks)}")
        recorder.record(Kind.INSTANT, Category.COMMUNICATION, 0, label, now, now, len(ranks))


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
    label, category = recorder.intern("wait for communication"), int(Category.COMMUNICATION)

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
