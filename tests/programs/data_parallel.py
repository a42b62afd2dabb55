"""Train data-parallel; msrun starts this program. usage: data_parallel.py graph|pynative STEPS"""

import sys

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn
from mindspore.communication import get_group_size, get_rank, init

mode, steps = sys.argv[1], int(sys.argv[2])
ms.set_seed(7)
ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
ms.set_device("CPU")
init()
ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
rank, size = get_rank(), get_group_size()


def batches():
    random = np.random.default_rng(rank)
    for _ in range(steps):
        yield random.normal(size=(16, 64)).astype(np.float32), random.integers(0, 10, 16).astype(np.int32)


data = ds.GeneratorDataset(batches, ["x", "y"], shuffle=False)
net = nn.SequentialCell(nn.Dense(64, 128), nn.ReLU(), nn.Dense(128, 10))
loss_fn = nn.CrossEntropyLoss()
optimizer = nn.Momentum(net.trainable_params(), 0.01, 0.9)
if mode == "graph":
    step = nn.TrainOneStepCell(nn.WithLossCell(net, loss_fn), optimizer)
    step.set_train()
else:
    reducer = nn.DistributedGradReducer(optimizer.parameters)
    gradient = ms.value_and_grad(lambda x, y: loss_fn(net(x), y), None, optimizer.parameters)

    def step(x, y):
        loss, gradients = gradient(x, y)
        optimizer(reducer(gradients))
        return loss


for x, y in data.create_tuple_iterator():
    loss = step(x, y)
print(f"rank {rank} of {size}: {float(loss.asnumpy()).hex()}")
