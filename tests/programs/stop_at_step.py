"""Run the callback of MindSpore's public profiler documents that profiles some steps. usage: stop_at_step.py [graph]"""

import sys

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn


class StopAtStep(ms.Callback):
    def __init__(self, start_step, stop_step):
        super().__init__()
        self.start_step = start_step
        self.stop_step = stop_step
        self.profiler = ms.Profiler(start_profile=False, output_path="own")

    def step_begin(self, run_context):
        cb_params = run_context.original_args()
        step_num = cb_params.cur_step_num
        if step_num == self.start_step:
            self.profiler.start()

    def step_end(self, run_context):
        cb_params = run_context.original_args()
        step_num = cb_params.cur_step_num
        if step_num == self.stop_step:
            self.profiler.stop()

    def end(self, run_context):
        self.profiler.analyse()


def batches():
    for _ in range(12):
        yield np.ones([2, 2], np.float32), np.ones([2], np.int32)


ms.set_seed(3)
ms.set_context(mode=ms.GRAPH_MODE if "graph" in sys.argv else ms.PYNATIVE_MODE)
ms.set_device("CPU")
net = nn.Dense(2, 2)
optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
losses = ms.train.LossMonitor(1)
model = ms.Model(net, loss, optimizer)
model.train(1, ds.GeneratorDataset(batches, ["data", "label"]), callbacks=[losses, StopAtStep(4, 6)])
print(net.weight.asnumpy().tobytes().hex())
