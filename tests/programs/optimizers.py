"""Call one optimizer of each of MindSpore's families with CPU kernels, all of them in every step."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, mint, nn
from mindspore.experimental import optim

ms.set_seed(7)
ms.set_device("CPU")
x = Tensor(np.ones((4, 8), np.float32))
nets = [nn.Dense(8, 8) for _ in range(6)]


def parameters(index):
    return nets[index].trainable_params()


optimizers = [
    nn.Adam(parameters(0), 0.01),
    nn.Momentum(parameters(1), 0.01, 0.9),
    optim.Adam(parameters(2), lr=0.01),
    optim.AdamW(parameters(3), lr=0.01),
    mint.optim.SGD(parameters(4), lr=0.01),
    mint.optim.Adam(parameters(5), lr=0.01),
]
gradients = [ms.value_and_grad(lambda x, net=net: net(x).sum(), None, net.trainable_params()) for net in nets]
for _ in range(4):
    for gradient, optimizer in zip(gradients, optimizers, strict=True):
        optimizer(gradient(x)[1])
