"""Read the descriptions of compiled graphs, see `job.frameworks.mindspore.compiled`."""

from dataclasses import dataclass
from functools import lru_cache

from ms_profiler.analysis.readers import side_files
from ms_profiler.store import anf_ir, layout
from ms_profiler.store.reader import ReadCounts

#: nodes that call another graph, which has no description; a call of a computed graph has no type
_CALLS = frozenset({"", "Switch", "SwitchLayer", "Partial", "PartialInline", "call_inline"})


@dataclass(frozen=True, slots=True)
class Node:
    """An operator of a graph.

    Attributes:
        type: the primitive.
        full_name: such as `Default/blocks-SequentialCell/0-Block/MatMul-op3`; its kernel has the same name, except that
            numbers continue from graph to graph.
        inputs: names of nodes, parameters and constants.
        output: a `TypeProto`.
    """

    type: str
    full_name: str
    inputs: tuple[str, ...]
    output: bytes


@dataclass(frozen=True)
class Graph:
    """A compiled graph.

    Attributes:
        cells: class and names of own parameters by path; empty if a function was compiled.
        parameters: `TypeProto` by name; inputs of the network are among them.
        nodes: by name, each after its inputs.
        title: the title of the compiled cell, such as `TrainOneStepCell#2`; empty for a function.
    """

    cells: dict[str, tuple[str, list[str]]]
    parameters: dict[str, bytes]
    nodes: dict[str, Node]
    title: str = ""

    @property
    def whole(self) -> bool:
        """Return whether these are all of its nodes, because it calls no other graph."""
        return not any(node.type in _CALLS for node in self.nodes.values())

    def shapes(self, node: Node) -> list[str]:
        """Return the dimensions of each tensor a node reads, `4,12`."""
        types = [self.nodes[name].output if name in self.nodes else self.parameters.get(name) for name in node.inputs]
        return [dimensions for kind in types if kind for dimensions in _dimensions(kind)]


def read(folder: str, counts: ReadCounts) -> list[Graph]:
    """Return the graphs that a process compiled, in that order.

    Args:
        folder: the folder of the process.
        counts: receives the number of unreadable parts.
    """
    found = []
    for path in layout.graphs(folder):
        try:
            with open(path, "rb") as stream:
                found.append(parse(stream.read()))
        except side_files.DAMAGE as error:
            counts.damaged_files.append((path.rpartition("/")[2], str(error) or "cannot be read"))
            return []  # numbers of kernels continue from graph to graph
    return found


def parse(content: bytes) -> Graph:
    """Parse the description of a graph.

    Raises:
        ValueError: it is damaged.
    """
    head, _, description = content.partition(b"\n")
    known = side_files.parsed(head)
    cells = {path: (kind, list(own)) for path, kind, own in known["cells"]}
    parameters: dict[str, bytes] = {}
    nodes: dict[str, Node] = {}
    for number, value in anf_ir.fields(description):
        if number == anf_ir.GRAPH_PARAMETER:
            parameter = dict(anf_ir.fields(value))
            parameters[_text(parameter.get(anf_ir.NAME))] = parameter.get(anf_ir.VALUE, b"")
        elif number == anf_ir.GRAPH_NODE:
            parts = list(anf_ir.fields(value))
            single = dict(parts)
            inputs = [
                _text(dict(anf_ir.fields(part)).get(anf_ir.NAME)) for key, part in parts if key == anf_ir.NODE_INPUT
            ]
            nodes[_text(single.get(anf_ir.NODE_NAME))] = Node(
                _text(single.get(anf_ir.NODE_TYPE)),
                _text(single.get(anf_ir.NODE_FULL_NAME)),
                tuple(inputs),
                single.get(anf_ir.NODE_OUTPUT, b""),
            )
    return Graph(cells, parameters, nodes, str(known.get("title", "")))


@lru_cache(maxsize=4096)
def _dimensions(kind: bytes) -> list[str]:
    return [",".join(map(str, tensor.dimensions)) for tensor in anf_ir.tensors(kind)]


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")
