"""Collectives that MindSpore has on CPU, and data-parallel training; to be started by msrun."""

import mindspore as ms
import mindspore.mint.distributed as distributed
import mindspore.ops.communication as communication
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.communication import create_group, get_rank, init

ms.set_seed(7)
ms.set_device("CPU")
init()
value = get_rank() + 1
x = Tensor(np.full((2, 3), value, np.float32))
print(ops.AllReduce()(x).asnumpy().sum())
print(ops.AllGather()(x).asnumpy().sum())
print(ops.Broadcast(0)((x,))[0].asnumpy().sum())
create_group("pair", [0, 1])
print(ops.AllReduce(group="pair")(x).asnumpy().sum())
for reduce, kind in ((communication.all_reduce, np.float16), (distributed.all_reduce, np.float32)):
    y = Tensor(np.full((4,), value, kind))
    reduce(y)
    print(y.asnumpy().sum())
ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
net = nn.Dense(3, 3)
optimizer = nn.SGD(net.trainable_params(), 0.01)
reducer = nn.DistributedGradReducer(optimizer.parameters)
gradient = ms.value_and_grad(lambda x: net(x).sum(), None, optimizer.parameters)
for _ in range(4):
    loss, gradients = gradient(x)
    optimizer(reducer(gradients))
    print(float(loss.asnumpy()).hex())
