"""Train twenty steps without calling a profiler; after the fifth, wait until another process changes the file."""

import pathlib
import time

import mindspore as ms
import numpy as np
from mindspore import nn

ms.set_device("CPU")
net = nn.Dense(2, 2)
optimizer = nn.SGD(net.trainable_params(), 0.01)
gradient = ms.value_and_grad(lambda data: net(data).sum(), None, optimizer.parameters)
for step in range(20):
    _, gradients = gradient(ms.Tensor(np.ones([2, 2], np.float32)))
    optimizer(gradients)
    if step == 5:
        pathlib.Path("waits").touch()
        while not pathlib.Path("goes on").exists():
            time.sleep(0.01)
        time.sleep(1.1)
