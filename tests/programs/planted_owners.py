"""Train networks in which shapes identify a kernel's module. usage: planted_owners.py graph|pynative|jit STEPS NAME...

Each part of a network has sizes that no other part has. The program prints the path of the part for each size, as JSON.
"""

import json
import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from planted_cells import BATCH, CLASSES, NETWORKS, SHAPES, TOKENS, WIDTH, planted

mode, steps, names = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
ms.set_seed(7)
ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
ms.set_device("CPU")
random = np.random.default_rng(7)


class Loss(nn.Cell):
    """The loss of a network with one or two outputs."""

    def __init__(self):
        super().__init__()
        self.loss = nn.CrossEntropyLoss()

    def construct(self, out, labels):
        if isinstance(out, tuple):
            return self.loss(out[0], labels) + 0.3 * self.loss(out[1], labels)
        return self.loss(out, labels)


class Accumulate(nn.Cell):
    """A training step that adds up the gradients of the two halves of a batch before the update."""

    def __init__(self, net, optimizer):
        super().__init__()
        self.net, self.optimizer = net, optimizer
        self.gradient = ops.GradOperation(get_by_list=True)
        self.map = ops.HyperMap()

    def construct(self, x, labels):
        gradient = self.gradient(self.net, self.optimizer.parameters)
        one, two = gradient(x[:2], labels[:2]), gradient(x[2:], labels[2:])
        return ops.depend(self.net(x, labels), self.optimizer(self.map(ops.add, one, two)))


def made(name):
    """Return a function that makes a training step of a network and returns the loss."""
    net = NETWORKS[name]()
    shape = SHAPES.get(name, (BATCH, 16))
    labels = Tensor(random.integers(0, CLASSES, shape[0]).astype(np.int32))
    if name == "tied":
        data = Tensor(random.integers(0, net.words, (BATCH, TOKENS)).astype(np.int32))
    else:
        data = Tensor(random.normal(size=shape).astype(np.float32))
    if name == "layers":
        labels = Tensor(random.integers(0, WIDTH, BATCH).astype(np.int32))
    optimizer = nn.Momentum(net.trainable_params(), 0.001, 0.9)
    loss = Loss()

    def forward(data, labels):
        return loss(net(data), labels)

    if mode == "graph":
        whole = nn.WithLossCell(net, loss)
        step = Accumulate(whole, optimizer) if name == "accumulate" else nn.TrainOneStepCell(whole, optimizer)
        step.set_train()
        return lambda: step(data, labels)
    net.set_train()
    gradient = ms.value_and_grad(forward, None, optimizer.parameters)

    def step(data, labels):
        value, gradients = gradient(data, labels)
        if name == "accumulate":
            _, more = gradient(data, labels)
            gradients = tuple(one + two for one, two in zip(gradients, more, strict=True))
        optimizer(gradients)
        return value

    if mode == "jit":
        step = ms.jit(step)
    return lambda: step(data, labels)


def train(name):
    both = [made(name) for _ in range(1 + (name == "pair"))]
    for _ in range(steps):
        for step in both:
            step().asnumpy()


for name in names:
    train(name)
print(json.dumps({number: path for number, path in planted.items() if path}))
