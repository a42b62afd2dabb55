"""Run the custom loop of MindSpore's public profiler documents, which starts and stops the profiler at given steps.

usage: own_loop.py FIRST LAST
"""

import sys

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn

ms.set_seed(3)
ms.set_device("CPU")
net = nn.Dense(2, 2)
optimizer = nn.SGD(net.trainable_params(), 0.01)
gradient = ms.value_and_grad(lambda data: net(data).sum(), None, optimizer.parameters)


def train(data):
    loss, gradients = gradient(data)
    optimizer(gradients)
    return loss


first, last = map(int, sys.argv[1:])
profiler = ms.Profiler(start_profile=False, output_path="own")
data_loader = ds.NumpySlicesDataset(
    {"data": np.ones([last + 5, 2, 2], np.float32)}, shuffle=False
).create_dict_iterator()

for i, data in enumerate(data_loader):
    loss = train(data["data"])
    if i == first:
        profiler.start()
    if i == last:
        profiler.stop()

profiler.analyse()
print(float(loss.asnumpy()).hex())
