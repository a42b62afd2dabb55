"""Train a dense layer by Model.train on 20 batches; print each loss to the bit. usage: model_loop.py MODE..."""

import sys

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(2, 2)

    def construct(self, x):
        return self.fc(x)


class PrintLoss(ms.Callback):
    def on_train_step_end(self, run_context):
        print(float(run_context.original_args().net_outputs.asnumpy()).hex())


def batches():
    for index in range(20):
        yield np.array([[1, index % 3], [index % 5, 1]], np.float32), np.array([index % 2, 1 - index % 2], np.int32)


ms.set_device("CPU")
for mode in sys.argv[1:]:
    ms.set_seed(7)
    ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
    net = Net()
    optimizer = nn.Momentum(net.trainable_params(), 0.01, 0.9)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    data = ds.GeneratorDataset(batches, ["data", "label"], shuffle=False)
    ms.Model(net, loss, optimizer).train(1, data, callbacks=[PrintLoss()])
