"""Train fifteen steps; the script's own profiler records two cycles of two steps. usage: own_profiler.py NAMES

NAMES is the package whose classes the program uses, "mindspore.profiler" or "ms_profiler".
"""

import importlib
import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn

profiling = importlib.import_module(sys.argv[1])
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
with profiling.profile(
    activities=[profiling.ProfilerActivity.CPU],
    record_shapes=True,
    schedule=profiling.schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1),
    on_trace_ready=profiling.tensorboard_trace_handler("own", worker_name="worker"),
    experimental_config=profiling._ExperimentalConfig(aic_metrics=profiling.AicoreMetrics.AiCoreNone),
) as profiler:
    profiler.add_metadata("who", "me")
    profiler.add_metadata_json("what", '{"lr": 0.01}')
    for _ in range(10):
        profiling.mstx.mark("begin", domain="mine")
        step()
        profiler.step()
for _ in range(2):
    step()
