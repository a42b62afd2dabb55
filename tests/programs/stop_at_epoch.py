"""Run the callback of MindSpore's public profiler documents that profiles some epochs, sinking data if possible."""

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn


class StopAtEpoch(ms.Callback):
    def __init__(self, start_epoch, stop_epoch):
        super().__init__()
        self.start_epoch = start_epoch
        self.stop_epoch = stop_epoch
        self.profiler = ms.Profiler(start_profile=False, output_path="own")

    def epoch_begin(self, run_context):
        cb_params = run_context.original_args()
        epoch_num = cb_params.cur_epoch_num
        if epoch_num == self.start_epoch:
            self.profiler.start()

    def epoch_end(self, run_context):
        cb_params = run_context.original_args()
        epoch_num = cb_params.cur_epoch_num
        if epoch_num == self.stop_epoch:
            self.profiler.stop()

    def end(self, run_context):
        self.profiler.analyse()


def batches():
    for _ in range(3):
        yield np.ones([2, 2], np.float32), np.ones([2], np.int32)


ms.set_seed(3)
ms.set_context(mode=ms.GRAPH_MODE)
ms.set_device("CPU")
net = nn.Dense(2, 2)
optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
model = ms.Model(net, loss, optimizer)
data = ds.GeneratorDataset(batches, ["data", "label"])
model.train(5, data, callbacks=[StopAtEpoch(2, 3)], dataset_sink_mode=True)
print(net.weight.asnumpy().tobytes().hex())
