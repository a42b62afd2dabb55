"""Note the collectives of a compiled graph: operation, group of ranks, and bytes.

MindSpore's records of kernels contain names and shapes, but no groups of ranks. MindSpore's description of the compiled
graph names each collective and its kernel (`Cell.get_func_graph_proto`: 300 bytes an operator, no tensor values). So
ms-profiler reads this description once for each compilation, and only in jobs of several processes. The module
`store.anf_ir` explains the format of the description.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

from ms_profiler.job.frameworks.mindspore import communication, ranks
from ms_profiler.store.anf_ir import (
    GRAPH_NODE,
    GRAPH_PARAMETER,
    MODEL_GRAPH,
    NAME,
    NODE_ATTRIBUTE,
    NODE_FULL_NAME,
    NODE_NAME,
    NODE_OUTPUT,
    NODE_TYPE,
    VALUE,
    VALUE_TEXT,
    Tensor,
    fields,
    inputs,
    tensors,
)

if TYPE_CHECKING:
    from ms_profiler.job.host import Host


class Exchange(NamedTuple):
    """One collective of a graph.

    Attributes:
        kernel: full name of the collective's kernel.
        kind: the operation, for example "AllReduce"; `communication.KINDS` lists all.
        group: name of the group of ranks.
        shapes: dimensions of the inputs, for example "4,8;8" for two inputs.
        size: bytes of all inputs together; 0 if a dimension is unknown.
    """

    kernel: str
    kind: str
    group: str
    shapes: str
    size: int


def note(host: "Host", description: bytes) -> None:
    """Note the collectives of a graph that MindSpore has just compiled, if the job has several processes.

    Args:
        host: the session, which stores the notes.
        description: MindSpore's description of the graph, a `ModelProto`.
    """
    if host.identity.world_size <= 1:
        return
    notes = ranks.notes(host)
    for found in exchanges(description):
        notes.group(found.group)
        notes.add(f"exchange {found.kind}@{found.group} of {found.shapes} by {found.kernel}", found.size)
    notes.rank()


def exchanges(description: bytes) -> list[Exchange]:
    """Return the collectives of a graph.

    Args:
        description: MindSpore's description of the graph, a `ModelProto`.

    Raises:
        ValueError: the description is not a `ModelProto`.
    """
    if not any(kind.encode() in description for kind in communication.KINDS):
        return []
    graph = next((value for number, value in fields(description) if number == MODEL_GRAPH), b"")
    types: dict[bytes, list[Tensor]] = {}
    nodes = []
    for number, value in fields(graph):
        if number == GRAPH_PARAMETER:
            parameter = dict(fields(value))
            types[parameter.get(NAME, b"")] = tensors(parameter.get(VALUE, b""))
        elif number == GRAPH_NODE:
            node = list(fields(value))
            single = dict(node)
            types[single.get(NODE_NAME, b"")] = tensors(single.get(NODE_OUTPUT, b""))
            kind = communication.kind_of(single.get(NODE_TYPE, b"").decode("utf-8", "replace"))
            group = _text_attribute(node, b"group") if kind else ""
            if group:
                nodes.append((kind, group, single.get(NODE_FULL_NAME, b"").decode("utf-8", "replace"), node))
    return [_exchange(kind, group, name, _inputs(node, types)) for kind, group, name, node in nodes]


def _exchange(kind: str, group: str, name: str, inputs: list[Tensor]) -> Exchange:
    shapes = ";".join(",".join(map(str, tensor.dimensions)) for tensor in inputs)
    known = all(size >= 0 for tensor in inputs for size in tensor.dimensions)
    size = sum(tensor.width * math.prod(tensor.dimensions) for tensor in inputs) if known else 0
    return Exchange(name, kind, group, shapes, size)


def _inputs(node: list[tuple[int, bytes]], types: dict[bytes, list[Tensor]]) -> list[Tensor]:
    return [tensor for name in inputs(node) for tensor in types.get(name, ())]


def _text_attribute(node: list[tuple[int, bytes]], name: bytes) -> str:
    for number, value in node:
        if number == NODE_ATTRIBUTE:
            attribute = dict(fields(value))
            if attribute.get(NAME) == name:
                return dict(fields(attribute.get(VALUE, b""))).get(VALUE_TEXT, b"").decode("utf-8", "replace")
    return ""
