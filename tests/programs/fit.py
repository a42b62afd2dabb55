"""Run Model.fit for two epochs of 6 batches with evaluation and checkpoints, then Model.eval. usage: fit.py FOLDER"""

import sys

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn
from mindspore.train import Accuracy, CheckpointConfig, ModelCheckpoint

ms.set_seed(7)
ms.set_device("CPU")
ms.set_context(mode=ms.PYNATIVE_MODE)


def batches():
    for index in range(6):
        yield np.full((4, 8), index, np.float32), np.array([index % 2] * 4, np.int32)


def dataset():
    return ds.GeneratorDataset(batches, ["x", "y"], shuffle=False)


net = nn.Dense(8, 2)
model = ms.Model(
    net,
    nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"),
    nn.SGD(net.trainable_params(), 0.01),
    metrics={"accuracy": Accuracy()},
)
checkpoints = ModelCheckpoint("net", sys.argv[1], CheckpointConfig(save_checkpoint_steps=3))
model.fit(2, dataset(), dataset(), callbacks=[checkpoints])
print(model.eval(dataset()))
