"""Build descriptions of compiled graphs in MindSpore's format."""

import json

from ms_profiler.store import anf_ir

FLOAT16, FLOAT32 = 10, 11


def varint(number):
    number %= 1 << 64
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def field(number, content):
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def tensor(element, *dimensions):
    """Return a TypeProto of a tensor with an element type and dimensions, as bytes."""
    shape = b"".join(field(1, field(1, size)) for size in dimensions)
    return field(1, 14) + field(2, field(1, element) + field(2, shape))


def node(name, kind, inputs, output, full_name="", **attributes):
    parts = [field(1, field(1, each) + field(2, 0)) for each in inputs]
    parts += [field(2, name), field(3, kind), field(4, "Default")]
    parts += [field(5, field(1, key) + field(2, field(1, 13) + field(7, value))) for key, value in attributes.items()]
    return field(1, b"".join([*parts, field(6, output), field(8, full_name)]))


def model(*nodes, parameters=()):
    graph = b"".join([*nodes, *(field(3, field(1, name) + field(2, kind)) for name, kind in parameters)])
    return field(1, 3) + field(2, "MindSpore") + field(4, graph)


def kept(cells, *nodes, parameters=(), title="", holders=None):
    """Return the description of a compiled graph as the store keeps it.

    Args:
        cells: (path, class, names of its own parameters) of each cell.
        nodes: the nodes of the graph, see `node`.
        parameters: (name, TypeProto) of each parameter.
        title: the title of the graph.
        holders: parameter of an optimizer -> paths of the modules that hold it.
    """
    head = {"time_ns": 0, "title": title, "cells": cells, "holders": holders or {}}
    return json.dumps(head).encode() + b"\n" + anf_ir.without_constants(model(*nodes, parameters=parameters))
