"""Train in ways whose steps are hard to recognise; print the number of steps. usage: mindspore_steps.py MODE KIND"""

import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.dataset import NumpySlicesDataset

ms.set_seed(7)
ms.set_device("CPU")
ms.set_context(mode=ms.GRAPH_MODE if sys.argv[1] == "graph" else ms.PYNATIVE_MODE)


class Summed(nn.Cell):
    """Return the sum of a network's outputs as a loss."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def construct(self, x):
        return self.network(x).sum()


net, critic = nn.Dense(8, 4), nn.Dense(8, 4)
x = Tensor(np.ones((4, 8), np.float32))
count = 0


def trained(network):
    optimizer = nn.SGD(network.trainable_params(), 0.01)
    return nn.TrainOneStepCell(Summed(network), optimizer)


def updated(network, optimizer):
    """Return a function that computes a network's gradients and calls an optimizer once."""
    gradient = ms.value_and_grad(lambda x: network(x).sum(), None, network.trainable_params())

    def update():
        optimizer(gradient(x)[1])

    return update


def rollout():
    """Train as in reinforcement learning: 70 calls of the network, then 5 updates, and both again."""
    global count
    update = updated(net, nn.SGD(net.trainable_params(), 0.01))
    for _ in range(2):
        for _ in range(70):
            net(x)
        for _ in range(5):
            update()
            count += 1


def evaluation_first():
    """Call Model.eval, then train with a cell; the script evaluates the network itself after every three steps."""
    global count
    data = NumpySlicesDataset(np.ones((12, 8), np.float32), ["x"]).batch(4)

    class Metric(nn.Metric):
        def clear(self):
            pass

        def update(self, *inputs):
            pass

        def eval(self):
            return 0.0

    ms.Model(net, eval_network=Summed(net), metrics={"none": Metric()}).eval(data, dataset_sink_mode=False)
    step = trained(net)
    for _ in range(2):
        for _ in range(3):
            step(x)
            count += 1
        for _ in range(5):
            net(x)


def cells():
    """Train with two cells: in each step, the first is called once and the second twice."""
    global count
    first, second = trained(net), trained(critic)
    for _ in range(4):
        first(x)
        second(x)
        second(x)
        count += 1


def accumulate():
    """Train with three gradients for each step."""
    global count
    parameters = net.trainable_params()
    optimizer = nn.Adam(parameters, 0.01)
    gradient = ms.value_and_grad(lambda x: net(x).sum(), None, parameters)
    for _ in range(4):
        total = None
        for _ in range(3):
            found = gradient(x)[1]
            total = found if total is None else tuple(ops.add(a, b) for a, b in zip(total, found, strict=True))
        optimizer(total)
        count += 1


class Summing(nn.TrainOneStepCell):
    """A training cell that sums up the gradients of three calls, and calls its optimizer in the third."""

    def __init__(self, network, optimizer):
        super().__init__(network, optimizer)
        self.calls, self.total = 0, None

    def construct(self, x):
        found = self.grad(self.network, self.weights)(x, Tensor(1.0, ms.float32))
        total = self.total or [0.0] * len(found)
        self.total = [ops.add(a, b) for a, b in zip(total, found, strict=True)]
        self.calls += 1
        if self.calls % 3 == 0:
            self.optimizer(tuple(self.total))
            self.total = None
        return self.network(x)


def summing_cell():
    """Train with a cell that updates in every third call."""
    global count
    step = Summing(Summed(net), nn.SGD(net.trainable_params(), 0.01))
    for _ in range(4):
        for _ in range(3):
            step(x)
        count += 1


def optimizers():
    """Train two networks in each step, each with its own optimizer."""
    global count
    updates = [updated(network, nn.SGD(network.trainable_params(), 0.01)) for network in (net, critic)]
    for _ in range(5):
        for update in updates:
            update()
        count += 1


if __name__ == "__main__":
    globals()[sys.argv[2]]()
    print(count)
