"""Train while the script's own profiler runs for two of nine steps. usage: own_profiler.py DIRECTORY"""

import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn
from mindspore.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

ms.set_seed(7)
ms.set_device("CPU")
net = nn.Dense(3, 3)
x = Tensor(np.ones((2, 3), np.float32))
optimizer = nn.SGD(net.trainable_params(), 0.01)
gradient = ms.value_and_grad(lambda x: net(x).sum(), None, optimizer.parameters)


def step():
    loss, gradients = gradient(x)
    optimizer(gradients)
    print(float(loss.asnumpy()).hex())


for _ in range(3):
    step()
plan = schedule(wait=0, warmup=0, active=2, repeat=1)
with profile(
    activities=[ProfilerActivity.CPU], schedule=plan, on_trace_ready=tensorboard_trace_handler(sys.argv[1])
) as profiler:
    for _ in range(3):
        step()
        profiler.step()
for _ in range(3):
    step()
