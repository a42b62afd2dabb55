"""Run custom loops over six batches; print each loop's result on a separate line. usage: custom_loop.py KIND...

plain       value_and_grad and one optimizer
accumulate  the gradients of three batches make one step
two         two optimizers, the first of which runs twice in each step
jit         the whole step in one @jit function
cell        TrainOneStepCell in graph mode
batches     a loop over a dataset, without training
"""

import sys

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn, ops


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first = nn.Dense(8, 8)
        self.second = nn.Dense(8, 2)

    def construct(self, x):
        return self.second(ops.relu(self.first(x)))


def batches():
    for index in range(6):
        yield np.full((4, 8), index % 5, np.float32), np.array([index % 2] * 4, np.int32)


def loop(kind):
    """Run a kind of loop; return its losses, or the sums of the final parameters or of the batches."""
    ms.set_seed(7)
    ms.set_context(mode=ms.GRAPH_MODE if kind == "cell" else ms.PYNATIVE_MODE)
    data = ds.GeneratorDataset(batches, ["x", "y"], shuffle=False).create_tuple_iterator()
    net = Net()
    loss_fn = nn.CrossEntropyLoss()
    optimizer = nn.SGD(net.trainable_params(), 0.01)

    def forward(x, y):
        return loss_fn(net(x), y)

    gradient = ms.value_and_grad(forward, None, net.trainable_params())
    if kind == "plain":
        losses = []
        for x, y in data:
            loss, grads = gradient(x, y)
            optimizer(grads)
            losses.append(float(loss.asnumpy()))
        return losses
    if kind == "accumulate":
        total = None
        for index, (x, y) in enumerate(data):
            loss, grads = gradient(x, y)
            total = grads if total is None else tuple(a + b for a, b in zip(total, grads, strict=True))
            if index % 3 == 2:
                optimizer(total)
                total = None
    elif kind == "two":
        other = nn.Adam(net.second.trainable_params(), 0.01)
        second = ms.value_and_grad(forward, None, net.second.trainable_params())
        for x, y in data:
            for _ in range(2):
                optimizer(gradient(x, y)[1])
            other(second(x, y)[1])
    elif kind == "jit":

        @ms.jit
        def step(x, y):
            loss, grads = gradient(x, y)
            optimizer(grads)
            return loss

        return [float(step(x, y).asnumpy()) for x, y in data]
    elif kind == "cell":
        train = nn.TrainOneStepCell(nn.WithLossCell(net, loss_fn), optimizer)
        train.set_train()
        return [float(train(x, y).asnumpy()) for x, y in data]
    elif kind == "batches":
        return [float(x.asnumpy().sum()) for x, _ in data]
    return [float(value.asnumpy().sum()) for value in net.trainable_params()]


ms.set_device("CPU")
for kind in sys.argv[1:]:
    print(kind, *(value.hex() for value in loop(kind)))
