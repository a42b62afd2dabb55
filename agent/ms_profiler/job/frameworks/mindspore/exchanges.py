"""What a compiled graph exchanges with other ranks: which operation, over which group, how many bytes.

The kernels that do it are seen when they run, by name and shape only. MindSpore describes a graph it has compiled, as
`Cell.get_func_graph_proto` shows it, in 300 bytes an operator and without the values of any tensor; from that each
collective is noted, with the name of its kernel. Read once a compilation, and only in jobs of several processes.

The description is a `ModelProto` of MindSpore's anf_ir.proto. Of the few fields that are used the numbers are below;
the generated reader would make every job load protobuf.
"""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ms_profiler.job.frameworks.mindspore import communication, ranks
from ms_profiler.store.format import Category, Kind

if TYPE_CHECKING:
    from ms_profiler.job.session import Session

# ModelProto, GraphProto, NodeProto, AttributeProto, ValueProto, TypeProto, Tensor, TensorShapeProto, Dimension
MODEL_GRAPH = 4
GRAPH_NODE, GRAPH_PARAMETER = 1, 3
NODE_INPUT, NODE_NAME, NODE_TYPE, NODE_ATTRIBUTE, NODE_OUTPUT, NODE_FULL_NAME = 1, 2, 3, 5, 6, 8
NAME, VALUE = 1, 2
VALUE_TEXT = 7
TYPE_TENSOR, TYPE_SEQUENCE, SEQUENCE_TYPES = 2, 3, 1
TENSOR_ELEMENT, TENSOR_SHAPE, SHAPE_DIMENSION, DIMENSION_SIZE = 1, 2, 1, 1

#: DataType -> bytes of an element
WIDTHS = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 2, 8: 4, 9: 8, 10: 2, 11: 4, 12: 8, 43: 8, 44: 16, 46: 2}
#: A size that is only known when the graph runs.
UNKNOWN = 1 << 63


class Tensor(NamedTuple):
    """Bytes of an element, and dimensions."""

    width: int
    dimensions: tuple[int, ...]


class Exchange(NamedTuple):
    """One collective of a graph.

    Attributes:
        kernel: full name of its kernel.
        kind: what it does, see `communication.KINDS`.
        group: over which ranks.
        shapes: dimensions of its inputs, "4,8;8".
        size: bytes of its inputs, 0 where a dimension is not known.
    """

    kernel: str
    kind: str
    group: str
    shapes: str
    size: int


class Graphs:
    """Note what compiled graphs exchange."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        self._label = session.recorder.intern("read exchanges of a graph")

    def compiled(self, executor: Any, phase: str) -> None:
        """Note the exchanges of a graph that has just been compiled.

        Args:
            executor: MindSpore's.
            phase: its name for the graph.
        """
        describe = getattr(executor, "get_func_graph_proto", None)
        if describe is None or self.session.identity.world_size <= 1 or not executor.has_compiled(phase):
            return
        recorder, begun = self.session.recorder, self.session.recorder.now()
        notes = ranks.notes(self.session)
        for found in exchanges(describe(phase, "anf_ir", False)):
            notes.group(found.group)
            notes.add(f"exchange {found.kind}@{found.group} of {found.shapes} by {found.kernel}", found.size)
        notes.rank()
        recorder.record(Kind.SPAN, Category.PROFILER, 0, self._label, begun, recorder.now(), 0)


def exchanges(description: bytes) -> list[Exchange]:
    """Return the collectives of a graph.

    Args:
        description: a `ModelProto`.

    Raises:
        ValueError: it is none.
    """
    if not any(kind.encode() in description for kind in communication.KINDS):
        return []
    graph = next((value for number, value in fields(description) if number == MODEL_GRAPH), b"")
    types: dict[bytes, list[Tensor]] = {}
    nodes = []
    for number, value in fields(graph):
        if number == GRAPH_PARAMETER:
            parameter = dict(fields(value))
            types[parameter.get(NAME, b"")] = _tensors(parameter.get(VALUE, b""))
        elif number == GRAPH_NODE:
            node = list(fields(value))
            single = dict(node)
            types[single.get(NODE_NAME, b"")] = _tensors(single.get(NODE_OUTPUT, b""))
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
    names = [dict(fields(value)).get(NAME, b"") for number, value in node if number == NODE_INPUT]
    return [tensor for name in names for tensor in types.get(name, ())]


def _text_attribute(node: list[tuple[int, bytes]], name: bytes) -> str:
    for number, value in node:
        if number == NODE_ATTRIBUTE:
            attribute = dict(fields(value))
            if attribute.get(NAME) == name:
                return dict(fields(attribute.get(VALUE, b""))).get(VALUE_TEXT, b"").decode("utf-8", "replace")
    return ""


def _tensors(kind: bytes) -> list[Tensor]:
    """Return the tensors of a `TypeProto`: one, those of a sequence, or none."""
    found = []
    for number, value in fields(kind):
        if number == TYPE_SEQUENCE:
            found += [tensor for inner, part in fields(value) if inner == SEQUENCE_TYPES for tensor in _tensors(part)]
        elif number == TYPE_TENSOR:
            tensor = dict(fields(value))
            sizes = [dict(fields(part)) for inner, part in fields(tensor.get(TENSOR_SHAPE, b""))]
            dimensions = tuple(_signed(size.get(DIMENSION_SIZE, b"")) for size in sizes)
            found.append(Tensor(WIDTHS.get(_signed(tensor.get(TENSOR_ELEMENT, b"")), 0), dimensions))
    return found


def _signed(varint: bytes) -> int:
    number = int.from_bytes(varint, "little")
    return number - 2 * UNKNOWN if number >= UNKNOWN else number


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of the fields of a message, a whole number as its bytes, the lowest first.

    Format: https://protobuf.dev/programming-guides/encoding/.

    Raises:
        ValueError: it is none.
    """
    place, end = 0, len(message)
    while place < end:
        key, place = _varint(message, place)
        kind = key & 7
        if kind == 0:
            number, place = _varint(message, place)
            yield key >> 3, number.to_bytes(8, "little")
            continue
        if kind == 2:
            length, place = _varint(message, place)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"there is no wire type {kind}")
        if place + length > end:
            raise ValueError("a field is cut off")
        yield key >> 3, message[place : place + length]
        place += length


def _varint(message: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if place >= len(message) or shift > 63:
            raise ValueError("a number is cut off")
        byte = message[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number & (1 << 64) - 1, place
        shift += 7
