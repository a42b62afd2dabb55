"""Train a network whose backward kernels have a shape or type that identifies their module. usage: backward.py STEPS

Every module has its own width or activation. The name of a dense layer ends with its width. Each step adds up the
gradients of two backward passes, and runs the network once between them. The second pass covers two forward passes.
"""

import sys

import mindspore as ms
import numpy as np
from mindspore import nn

ms.set_seed(7)
ms.set_device("CPU")
random = np.random.default_rng(7)


class Side(nn.Cell):
    def __init__(self, outputs, activation):
        super().__init__()
        self.layer = f"dense{outputs}"
        setattr(self, self.layer, nn.Dense(11, outputs))
        self.activation = activation

    def construct(self, x):
        return self.activation(getattr(self, self.layer)(x))


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense11 = nn.Dense(7, 11)
        self.relu = nn.ReLU()
        self.left = Side(13, nn.Tanh())
        self.right = Side(17, nn.Sigmoid())
        self.dense19 = nn.Dense(13, 19)
        self.dense23 = nn.Dense(17, 23)
        self.norm = nn.LayerNorm((19,))
        self.dense3 = nn.Dense(19, 3)
        self.dense5 = nn.Dense(23, 5)

    def construct(self, x):
        x = self.relu(self.dense11(x))
        return self.dense3(self.norm(self.dense19(self.left(x)))), self.dense5(self.dense23(self.right(x)))


def loss(x):
    one, two = net(x)
    return (one * one).mean() + (two * two).mean()


def both(x):
    return loss(x) + loss(x * 2)


net = Net()
parameters = net.trainable_params()
optimizer = nn.Momentum(parameters, 0.01, 0.9)
passes = [ms.value_and_grad(function, None, parameters) for function in (loss, both)]
data = ms.Tensor(random.normal(size=(4, 7)).astype(np.float32))
for _ in range(int(sys.argv[1])):
    _, first = passes[0](data)
    net(data)
    _, second = passes[1](data)
    optimizer(tuple(one + two for one, two in zip(first, second, strict=True)))
