"""Train a planted network, and note which node of autograd runs when, and in which cell it was made.

usage: planted_truth.py FILE STEPS NAME

Everything runs as it is called. What runs nodes is told by hooks before each of them, in which cell they were made by
the numbers that nodes of our own have where cells begin and end: truth that no profiler of any job could ask for.
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
    """Note that what runs from here on in a backward pass is a part of the forward pass once more, and whose."""
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
    """Note the nodes that run; of a pass inside another one, which computes a part again, the outer one goes on."""
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
