"""Compute gradients in all ways of MindSpore, with and without recomputation; print a title before each result."""

import warnings

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.profiler import mstx

warnings.simplefilter("ignore")
ms.set_seed(7)
ms.set_device("CPU")
x = Tensor(np.random.default_rng(7).normal(size=(4, 8)).astype(np.float32))


class Block(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first = nn.Dense(8, 8)
        self.second = nn.Dense(8, 8)

    def construct(self, x):
        return self.second(ops.relu(self.first(x)))


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.one = Block()
        self.two = Block()

    def construct(self, x):
        return self.two(self.one(x))


class Around(nn.Cell):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def construct(self, x):
        return ms.recompute(self.block, x).sum()


def square(x):
    return x * x


def loss(x):
    return (net(x) ** 2).mean()


def hooked(x):
    y = net.one(x)
    y.register_hook(lambda gradient: gradient * 2)
    return net.two(y).mean()


def recomputed():
    again.one.recompute()
    again.two.recompute(use_reentrant=False)
    return ms.value_and_grad(lambda x: again(x).sum(), None, again.trainable_params())(x)


@ms.jit
def compiled(x):
    return ms.grad(loss)(x)


net, again, around = Net(), Net(), Around()
parameters = net.trainable_params()
ways = {
    "value_and_grad": lambda: ms.value_and_grad(loss, None, parameters)(x),
    "grad": lambda: ms.grad(loss)(x),
    "GradOperation": lambda: ops.GradOperation(get_by_list=True)(net, ms.ParameterTuple(parameters))(x),
    "vjp": lambda: ms.vjp(square, x)[1](x),
    "jvp": lambda: ms.jvp(square, x, x),
    "second": lambda: ms.grad(lambda x: ms.grad(lambda y: (y * y * y).sum())(x).sum())(x),
    "recompute": recomputed,
    "recompute function": lambda: ms.grad(around, None, around.trainable_params())(x),
    "jit": lambda: compiled(x),
    "hook": lambda: ms.grad(hooked)(x),
}
for title, way in ways.items():
    marker = mstx.range_start(title)
    way()
    mstx.range_end(marker)
