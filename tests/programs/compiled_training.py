"""Train in a compiled function, and evaluate after each epoch. usage: compiled_training.py KIND

one       a function that calls one optimizer
method    a method of an object, which calls the optimizer as an attribute
two       two functions, each with an optimizer of its own, called in turn
rate      a function that only reads the learning rate of an optimizer; the script calls the optimizer by itself

Three epochs of 8 batches, each followed by the evaluation of 6 batches.
"""

import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn

(kind,) = sys.argv[1:]
ms.set_seed(7)
ms.set_device("CPU")
net, other, square = nn.Dense(4, 2), nn.Dense(4, 2), nn.MSELoss()
optimizer, second = (nn.Adam(each.trainable_params(), 0.01) for each in (net, other))


def loss_of(x, y):
    return square(net(x), y)


def loss_of_other(x, y):
    return square(other(x), y)


gradient = ms.value_and_grad(loss_of, None, net.trainable_params())
of_other = ms.value_and_grad(loss_of_other, None, other.trainable_params())


@ms.jit
def train(x, y):
    loss, gradients = gradient(x, y)
    optimizer(gradients)
    return loss


@ms.jit
def train_other(x, y):
    loss, gradients = of_other(x, y)
    second(gradients)
    return loss


class Trainer:
    def __init__(self):
        self.update, self.gradient = optimizer, gradient

    @ms.jit
    def train(self, x, y):
        loss, gradients = self.gradient(x, y)
        self.update(gradients)
        return loss


@ms.jit
def scaled(x, y):
    loss, gradients = gradient(x, y)
    return loss * optimizer.learning_rate, gradients


@ms.jit
def evaluate(x):
    return net(x).sum()


def step(x, y):
    if kind == "one":
        return train(x, y)
    if kind == "method":
        return trainer.train(x, y)
    if kind == "two":
        return train(x, y) + train_other(x, y)
    loss, gradients = scaled(x, y)
    optimizer(gradients)
    return loss


trainer = Trainer()
x, y = Tensor(np.ones((3, 4), np.float32)), Tensor(np.zeros((3, 2), np.float32))
for _ in range(3):
    net.set_train()
    for _ in range(8):
        loss = step(x, y)
    net.set_train(False)
    for _ in range(6):
        evaluate(x)
print(float(loss).hex())
