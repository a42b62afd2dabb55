"""Train by the script's own loop, and validate before the first step and after each epoch. usage: ... KIND

networks  a generator and a discriminator; only the generator is switched to evaluation mode
turns     the same, and each update is of one of the two in turn
compiled  the same as networks, and the validation is a compiled function, which is first called before all of this
unset     one network, and set_train is never called
gathered  one network, whose gradients are added up over 4 batches
only      one network, which is only evaluated
failing   one network, and in the middle of an epoch, a step fails in the forward pass, and each step calls the network

Three epochs of 8 batches, of which the last ends after 4 batches. Each validation has 6 batches. The program prints the
time of all validations in seconds.
"""

import sys
import time

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

(kind,) = sys.argv[1:]
ms.set_seed(7)
ms.set_context(mode=ms.PYNATIVE_MODE, device_target="CPU")
several = kind in ("networks", "turns", "compiled")
made, judge = nn.Dense(4, 4), nn.Dense(4, 1)
for name, network in (("made", made), ("judge", judge)):
    for parameter in network.get_parameters():
        parameter.name = f"{name}.{parameter.name}"
parameters = [network.trainable_params() for network in (made, judge)]
optimizers = [nn.SGD(each, 0.01) for each in parameters[: 1 + several]]
x = Tensor(np.ones((3, 4), np.float32))


def loss_of(x):
    if failing:
        raise ValueError("a bad batch")
    return judge(made(x)).mean() if several else made(x).mean()


def predict(x):
    return judge(made(x)) if several else made(x)


def validate():
    if kind != "unset":
        made.set_train(False)
    began = time.perf_counter()
    for batch in range(6):
        time.sleep(0.02 if batch else 0)
        predict(x).asnumpy()
    took.append(time.perf_counter() - began)
    if kind != "unset":
        made.set_train(True)


def update(number):
    for place, (gradient, optimizer) in enumerate(zip(gradients, optimizers, strict=True)):
        if kind == "turns" and number % 2 != place:
            continue
        _, found = gradient(x)
        if kind == "gathered":
            gathered[:] = found if number % 4 == 0 else [ops.add(*each) for each in zip(gathered, found, strict=True)]
            if number % 4 < 3:
                continue
            found = tuple(gathered)
        optimizer(found)


failing, gathered, took = False, [], []
gradients = [ms.value_and_grad(loss_of, None, each) for each in parameters[: 1 + several]]
if kind == "compiled":
    predict = ms.jit(predict)
    predict(x)
validate()
for epoch in range(0 if kind == "only" else 3):
    for number in range(8 if epoch < 2 else 4):
        if kind == "failing":
            predict(x)
            failing = number == 2
            try:
                gradients[0](x)
            except ValueError:
                continue
            finally:
                failing = False
        update(number)
    validate()
print(sum(took))
