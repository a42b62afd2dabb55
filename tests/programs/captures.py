"""Read, compile and copy the functions that ms-profiler replaces, in every way; print each result to the bit."""

import copy
import inspect
import pickle

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, mint, nn, ops

ms.set_seed(1)
ms.set_device("CPU")
# with these numbers, the last bits of a gradient differ between a compiled function and an uncompiled one
x = Tensor(np.random.RandomState(0).randn(3, 3).astype(np.float32))
y = Tensor(np.random.RandomState(1).randn(3, 3).astype(np.float32))


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(3, 3)
        self.relu = ops.ReLU()
        self.add = ops.Add()

    def construct(self, x, y):
        z = mint.add(self.relu(self.dense(x)), y)
        z = mint.mul(z, x) + ops.matmul(x, y.T)
        z = mint.where(z > 0, z, mint.max(z))
        return self.add(ops.softmax(z, -1), x.sum()) + mint.sub(x, y, alpha=2) - mint.clamp(x, -1, 1)


net = Net()


def plain(x, y):
    return net(x, y)


def gradient(x, y):
    return ms.grad(plain)(x, y)


def item(x, y):
    return net(x, y) * x.sum().item()


def numbers(x, y):
    return net(x, y) * float(x.sum()) + int(y.sum()) + [1, 2, 3][Tensor(1)] + x.tolist()[0][0]


def branch(x, y):
    z = net(x, y)
    if float(z.sum()) > 0:
        z = z + int(x.shape[0])
    return z * bool(z.sum() > 0)


def to_numpy(x, y):
    return net(x, y) * x.asnumpy().sum()


def show(title, function):
    try:
        print(title, function(x, y).asnumpy().tobytes().hex())
    except Exception as reason:  # noqa: BLE001 - what is raised is part of the result
        print(title, type(reason).__name__)


for function in (plain, gradient, item, numbers, branch, to_numpy):
    name = function.__name__
    show(f"{name} pynative", function)
    show(f"{name} captured", ms.jit(function, capture_mode="bytecode"))
    show(f"{name} captured whole", ms.jit(function, capture_mode="bytecode", fullgraph=True))
for function in (plain, gradient, item):
    show(f"{function.__name__} compiled", ms.jit(function))
show("plain traced", ms.jit(plain, capture_mode="trace"))
show("captured cell", ms.jit(Net(), capture_mode="bytecode"))
ms.set_context(mode=ms.GRAPH_MODE)
show("graph", net)
show("graph gradient", lambda x, y: ms.grad(net)(x, y))
ms.set_context(mode=ms.PYNATIVE_MODE)

show("deep copy", copy.deepcopy(net))
show("copy", copy.copy(net))
for primitive in (ops.ReLU(), ops.Conv2D(3, 3), ops.Cast()):
    print(copy.deepcopy(primitive).name)
for thing in (x, Parameter(x, name="p")):
    print(pickle.loads(pickle.dumps(thing)).asnumpy().tobytes() == x.asnumpy().tobytes())
for thing in (
    mint.add,
    ops.relu,
    nn.Dense.__call__,
    Tensor.asnumpy,
    ms.save_checkpoint,
    ms.value_and_grad,
    ms.Model.train,
    ms.set_context,
    ms.profiler.mstx.mark,
):
    print(pickle.loads(pickle.dumps(thing)) is thing, thing.__class__.__name__, thing.__module__, thing.__qualname__)
    print(inspect.signature(thing), len(inspect.getsource(thing)))
