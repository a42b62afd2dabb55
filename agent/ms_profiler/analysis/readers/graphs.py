"""Read the descriptions of graphs that MindSpore compiled. `job.frameworks.mindspore.compiled` stores them."""

from dataclasses import dataclass, field
from functools import lru_cache

from ms_profiler.analysis.readers import side_files
from ms_profiler.store import anf_ir, layout
from ms_profiler.store.reader import ReadCounts

#: types of nodes that call another graph, which is not in this description
_CALLS = frozenset(kind.decode() for kind in anf_ir.CALLS)


@dataclass(frozen=True, slots=True)
class Node:
    """An operator of a graph.

    Attributes:
        type: the name of its primitive.
        full_name: such as `Default/blocks-SequentialCell/0-Block/MatMul-op3`. The node's kernel has the same name with
            another number at the end, because numbers of kernels continue from graph to graph.
        inputs: names of the nodes, parameters and constants that the node reads.
        output: the type of its output, a serialized `TypeProto`.
    """

    type: str
    full_name: str
    inputs: tuple[str, ...]
    output: bytes


@dataclass(frozen=True)
class Graph:
    """A compiled graph.

    Attributes:
        cells: path of a cell -> its class and the names of its own parameters; empty if a function was compiled.
        parameters: name of a parameter -> its type, a serialized `TypeProto`. Inputs of the network are parameters.
        nodes: name of a node -> the node; each node comes after its inputs.
        title: the title of the compiled cell, such as `TrainOneStepCell#2`; empty for a function.
        holders: name of a parameter that an optimizer updates -> paths of the modules that hold it; empty if no
            optimizer was compiled, or if no module that Python called holds its parameters.
    """

    cells: dict[str, tuple[str, list[str]]]
    parameters: dict[str, bytes]
    nodes: dict[str, Node]
    title: str = ""
    holders: dict[str, list[str]] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Return whether `nodes` are all nodes that the graph runs, because the graph calls no other graph."""
        return not any(node.type in _CALLS for node in self.nodes.values())

    def shapes(self, node: Node) -> list[str]:
        """Return the dimensions of each tensor that a node reads, such as `4,12`."""
        types = [self.nodes[name].output if name in self.nodes else self.parameters.get(name) for name in node.inputs]
        return [dimensions for kind in types if kind for dimensions in _dimensions(kind)]


def read(folder: str, counts: ReadCounts) -> list[Graph]:
    """Return the graphs that a process compiled, in the order of compilation; no graphs if one of them is damaged.

    Args:
        folder: the folder of the process.
        counts: receives the name of the damaged file.
    """
    found = []
    for path in layout.graphs(folder):
        try:
            with open(path, "rb") as stream:
                found.append(parse(stream.read()))
        except side_files.DAMAGE as error:
            counts.damaged_files.append((path.rpartition("/")[2], str(error) or "cannot be read"))
            return []  # numbers of kernels continue from graph to graph: without this graph, later numbers are unknown
    return found


def parse(content: bytes) -> Graph:
    """Parse the description of one graph.

    Raises:
        ValueError: the description is damaged.
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
            nodes[_text(single.get(anf_ir.NODE_NAME))] = Node(
                _text(single.get(anf_ir.NODE_TYPE)),
                _text(single.get(anf_ir.NODE_FULL_NAME)),
                tuple(map(_text, anf_ir.inputs(parts))),
                single.get(anf_ir.NODE_OUTPUT, b""),
            )
    holders = {str(name): list(map(str, paths)) for name, paths in known.get("holders", {}).items()}
    return Graph(cells, parameters, nodes, str(known.get("title", "")), holders)


@lru_cache(maxsize=4096)
def _dimensions(kind: bytes) -> list[str]:
    try:
        return [",".join(map(str, tensor.dimensions)) for tensor in anf_ir.tensors(kind)]
    except ValueError:  # a damaged type of one tensor
        return []


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")
