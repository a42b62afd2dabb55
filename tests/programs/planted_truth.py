"""Train a planted network, and write when each node of autograd runs and which cell made it.

usage: planted_truth.py FILE STEPS NAME

Operators run synchronously. A hook before each node notes when it runs. The program adds a numbered node at the begin
and at the end of each cell. The nodes with numbers between those two belong to the cell. A profiler cannot add such
nodes to a job.
"""

import json
import sys
import time

import mindspore as ms
import mindspore.ops.composite.base as composite
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

FILE, STEPS, NAME = sys.argv[1:]
sys.argv = ["planted_owners.py", "pynative", STEPS]
ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=True)
LEAF = 1 << 60

import planted_owners  # noqa: E402 - reads the arguments

probe, numbered = Parameter(Tensor(np.ones(1, np.float32)), name="probe"), ops.Atanh()
calls, ran, passes, names, around = [], [], [], {}, []
inside, depth = False, 0


run = type(composite._pynative_executor).grad


def path(cell):
    if id(cell) not in names:
        for name, inner in cell.cells_and_names():
            names.setdefault(id(inner), (inner, ".".join(filter(None, [type(cell).__name__, name]))))
    return names[id(cell)][1]


def number():
    node = numbered(probe)._grad_node
    return None if node is None else node._sequence_nr()


def again(name):
    """Note that, from now on, the backward pass recomputes the forward pass of the cell `name`."""
    if depth:
        ran.append((time.time_ns(), None, name))


def called(cell, *args, original=nn.Cell.__call__, **kwargs):
    if not inside or isinstance(cell, nn.Optimizer):
        return original(cell, *args, **kwargs)
    name, begin = path(cell), number()
    around.append(name)
    again(name)
    try:
        return original(cell, *args, **kwargs)
    finally:
        around.pop()
        again(around[-1] if around else None)
        end = number()
        if begin is not None and end is not None:
            calls.append((begin, end, name))


def forward(*args, original=composite._pynative_func_grad_forward, **kwargs):
    global inside
    outer, inside = inside, True
    try:
        out = original(*args, **kwargs)
    finally:
        inside = outer
    waiting, known = [out._grad_node], set()
    while waiting:
        node = waiting.pop()
        if node._unique_id() in known:
            continue
        known.add(node._unique_id())
        mine = node._sequence_nr()
        if mine < LEAF:
            name = node.name()
            node.register_prehook(lambda *_, mine=mine, name=name: ran.append((time.time_ns(), mine, name)))
        waiting += [each for each, _ in node.next_functions if each is not None]
    return out


def backward(*args, **kwargs):
    """Run a backward pass and note its nodes; a pass within another one adds its nodes to the outer pass."""
    global ran, depth
    outer, ran, begin, depth = ran, [], time.time_ns(), depth + 1
    out = run(*args, **kwargs)
    end, depth = time.time_ns(), depth - 1
    if depth:
        ran = outer + ran
        return out
    nodes = []
    for at, mine, name in ran:
        if mine is None:
            nodes.append((at, "again", name))
            continue
        inside_of = [call for call in calls if call[0] < mine < call[1]]
        nodes.append((at, name, min(inside_of, key=lambda call: call[1] - call[0])[2] if inside_of else None))
    passes.append((begin, end, nodes))
    ran = outer
    return out


nn.Cell.__call__, composite._pynative_func_grad_forward = called, forward
type(composite._pynative_executor).grad = backward
planted_owners.train(NAME)
with open(FILE, "w") as stream:
    json.dump(passes, stream)
