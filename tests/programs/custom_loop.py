"""Custom loops over 12 batches. usage: custom_loop.py KIND

plain       value_and_grad and one optimizer
accumulate  gradients of three batches make one step
two         two optimizers, the first called twice a step
jit         the whole step in one @jit function
cell        TrainOneStepCell in graph mode
batches     no training at all, only a loop over a dataset
"""

import sys

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn, ops

ms.set_seed(7)
ms.set_device("CPU")
kind = sys.argv[1]
ms.set_context(mode=ms.GRAPH_MODE if kind == "cell" else ms.PYNATIVE_MODE)


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first = nn.Dense(8, 8)
        self.second = nn.Dense(8, 2)

    def construct(self, x):
        return self.second(ops.relu(self.first(x)))


def batches():
    for index in range(12):
        yield np.full((4, 8), index % 5, np.float32), np.array([index % 2] * 4, np.int32)


data = ds.GeneratorDataset(batches, ["x", "y"], shuffle=False)
net = Net()
loss_fn = nn.CrossEntropyLoss()
optimizer = nn.SGD(net.trainable_params(), 0.01)


def forward(x, y):
    return loss_fn(net(x), y)


gradient = ms.value_and_grad(forward, None, net.trainable_params())

if kind == "plain":
    for x, y in data.create_tuple_iterator():
        loss, grads = gradient(x, y)
        optimizer(grads)
        print(float(loss.asnumpy()).hex())
elif kind == "accumulate":
    total = None
    for index, (x, y) in enumerate(data.create_tuple_iterator()):
        loss, grads = gradient(x, y)
        total = grads if total is None else tuple(a + b for a, b in zip(total, grads, strict=True))
        if index % 3 == 2:
            optimizer(total)
            total = None
elif kind == "two":
    other = nn.Adam(net.second.trainable_params(), 0.01)
    second = ms.value_and_grad(forward, None, net.second.trainable_params())
    for x, y in data.create_tuple_iterator():
        for _ in range(2):
            optimizer(gradient(x, y)[1])
        other(second(x, y)[1])
elif kind == "jit":

    @ms.jit
    def step(x, y):
        loss, grads = gradient(x, y)
        optimizer(grads)
        return loss

    for x, y in data.create_tuple_iterator():
        print(float(step(x, y).asnumpy()).hex())
elif kind == "cell":
    train = nn.TrainOneStepCell(nn.WithLossCell(net, loss_fn), optimizer)
    train.set_train()
    for x, y in data.create_tuple_iterator():
        print(float(train(x, y).asnumpy()).hex())
elif kind == "batches":
    print(sum(float(x.asnumpy().sum()) for x, _ in data.create_tuple_iterator()))
