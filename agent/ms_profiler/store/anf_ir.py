"""Read MindSpore's description of a compiled graph, which is a `ModelProto` of MindSpore's anf_ir.proto.

This module parses the few fields that it needs by their numbers. With a generated parser, every job would have to load
protobuf.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

# Numbers of fields of the messages ModelProto, GraphProto, NodeProto, AttributeProto, ValueProto, TypeProto, Tensor,
# TensorShapeProto and Dimension
MODEL_GRAPH = 4
GRAPH_NODE, GRAPH_PARAMETER, GRAPH_CONSTANT = 1, 3, 5
NODE_INPUT, NODE_NAME, NODE_TYPE, NODE_ATTRIBUTE, NODE_OUTPUT, NODE_FULL_NAME = 1, 2, 3, 5, 6, 8
NAME, VALUE = 1, 2
VALUE_TEXT = 7
TYPE_TENSOR, TYPE_SEQUENCE, SEQUENCE_TYPES = 2, 3, 1
TENSOR_ELEMENT, TENSOR_SHAPE, SHAPE_DIMENSION, DIMENSION_SIZE = 1, 2, 1, 1

#: number of a type of elements in the enumeration DataType -> bytes of an element
WIDTHS = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 2, 8: 4, 9: 8, 10: 2, 11: 4, 12: 8, 43: 8, 44: 16, 46: 2}
#: types of nodes that call another graph, which is not in the description; "" is a call of a graph chosen at run time
CALLS = frozenset({b"", b"Switch", b"SwitchLayer", b"Partial", b"PartialInline", b"call_inline"})
#: size that MindSpore gives a dimension whose real size is known only when the graph runs
UNKNOWN = 1 << 63


class Tensor(NamedTuple):
    """The type of a tensor: bytes of an element, and dimensions."""

    width: int
    dimensions: tuple[int, ...]


class Node(NamedTuple):
    """A node of a graph: its name, its type, and the names of the nodes, parameters and constants that it reads."""

    name: bytes
    type: bytes
    inputs: list[bytes]


def nodes(description: bytes) -> Iterator[Node]:
    """Yield the nodes of a graph.

    Args:
        description: MindSpore's description of the graph, a `ModelProto`.
    """
    graph = next((value for number, value in fields(description) if number == MODEL_GRAPH), b"")
    for number, value in fields(graph):
        if number == GRAPH_NODE:
            parts = list(fields(value))
            single = dict(parts)
            yield Node(single.get(NODE_NAME, b""), single.get(NODE_TYPE, b""), inputs(parts))


def inputs(node: Iterable[tuple[int, bytes]]) -> list[bytes]:
    """Return the names of the nodes, parameters and constants that a node reads.

    Args:
        node: number and content of each field of its `NodeProto`.
    """
    return [dict(fields(part)).get(NAME, b"") for number, part in node if number == NODE_INPUT]


def tensors(kind: bytes) -> list[Tensor]:
    """Return the tensors of a `TypeProto`: one for a tensor, several for a sequence, none for other types."""
    found = []
    for number, value in fields(kind):
        if number == TYPE_SEQUENCE:
            found += [tensor for inner, part in fields(value) if inner == SEQUENCE_TYPES for tensor in tensors(part)]
        elif number == TYPE_TENSOR:
            tensor = dict(fields(value))
            sizes = [dict(fields(part)) for inner, part in fields(tensor.get(TENSOR_SHAPE, b""))]
            dimensions = tuple(_signed(size.get(DIMENSION_SIZE, b"")) for size in sizes)
            found.append(Tensor(WIDTHS.get(_signed(tensor.get(TENSOR_ELEMENT, b"")), 0), dimensions))
    return found


def _signed(varint: bytes) -> int:
    number = int.from_bytes(varint, "little")
    return number - 2 * UNKNOWN if number >= UNKNOWN else number


def without_constants(description: bytes) -> bytes:
    """Return the serialized `GraphProto` in MindSpore's description of a graph, without the graph's constants."""
    graph = next((value for number, value in fields(description) if number == MODEL_GRAPH), b"")
    places = list(_places(graph))
    return b"".join(graph[start:end] for number, _, start, _, end in places if number != GRAPH_CONSTANT)


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the content of each field of a protobuf message.

    The content of an integer field is 8 bytes, the lowest first.
    Format: https://protobuf.dev/programming-guides/encoding/.

    Raises:
        ValueError: the bytes are no protobuf message.
    """
    for number, kind, _, begin, end in _places(message):
        yield number, message[begin:end] if kind else _varint(message, begin)[0].to_bytes(8, "little")


def _places(message: bytes) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield for each field of a protobuf message: number, wire type, begin, begin of its content, and end."""
    place, end = 0, len(message)
    while place < end:
        start, key, place = place, message[place], place + 1
        if key > 127:
            key, place = _varint(message, start)
        kind, begin = key & 7, place
        if kind == 2:
            length, begin = _varint(message, place)
            place = begin + length
        elif kind == 0:
            _, place = _varint(message, place)
        elif kind in (1, 5):
            place += 8 if kind == 1 else 4
        else:
            raise ValueError(f"there is no wire type {kind}")
        if place > end:
            raise ValueError("a field is cut off")
        yield key >> 3, kind, start, begin, place


def _varint(message: bytes, place: int) -> tuple[int, int]:
    if place < len(message) and message[place] < 128:
        return message[place], place + 1
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
