"""Make MindSpore compile functions and cells again for every reason that it has."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn

ms.set_device("CPU")
wide = Tensor(np.ones((2, 3), np.float32))
tall = Tensor(np.ones((4, 3), np.float32))
whole = Tensor(np.ones((2, 3), np.int32))


@ms.jit
def scale(tensor, factor=2):
    return tensor * factor


for arguments in ((wide,), (wide,), (tall,), (whole,), (whole, 3), (whole, 3.0), (wide,)):
    scale(*arguments)


@ms.jit
def pick(tensor, pair):
    return tensor * pair[0]


for pair in ([1, 2], [1, 3], (1, 2), (1, 2, 3), (wide, 1), (wide + 1, 1)):
    pick(wide, pair)


def make(number):
    @ms.jit
    def made(tensor):
        return tensor + number

    return made


for number in range(3):
    make(number)(wide)


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(3, 3)

    def construct(self, x, k=1):
        return self.dense(x) * k


ms.set_context(mode=ms.GRAPH_MODE)
nets = [Net(), Net()]
for net in nets:
    net(wide)
nets[0](tall)
nets[0].set_train(False)
nets[0](tall)
for _ in range(2):
    short_lived = Net()
    short_lived(wide)
    del short_lived


def square(x):
    return (x * x).sum()


for _ in range(2):
    ms.grad(square)(wide)
ms.set_context(mode=ms.PYNATIVE_MODE)


@ms.jit
def forward(x):
    return nets[1](x).sum()


forward(wide)
ms.value_and_grad(forward, None, nets[1].trainable_params())(wide)
