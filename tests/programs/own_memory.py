"""Train eight steps; the script's own profiler records the fourth and fifth with memory. usage: own_memory.py MODE"""

import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn
from mindspore.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

ms.set_seed(7)
ms.set_device("CPU")
ms.set_context(mode={"graph": ms.GRAPH_MODE, "pynative": ms.PYNATIVE_MODE}[sys.argv[1]])
net = nn.SequentialCell(nn.Dense(64, 128), nn.ReLU(), nn.Dense(128, 10))
train = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Adam(net.trainable_params()))
data, labels = Tensor(np.ones((32, 64), np.float32)), Tensor(np.ones((32, 10), np.float32))
with profile(
    activities=[ProfilerActivity.CPU, ProfilerActivity.NPU],
    profile_memory=True,
    schedule=schedule(wait=3, active=2, repeat=1),
    on_trace_ready=tensorboard_trace_handler("own"),
) as profiler:
    for _ in range(8):
        loss = train(data, labels)
        profiler.step()
print(float(loss.asnumpy()).hex())
