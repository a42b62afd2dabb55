"""Train with `Model.train` and two callbacks, one of which sleeps; print whether the loop left their classes alone.

A callback replaces its own method at the end. The loop must leave this method alone, too.
"""

import time

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn


class Quick(ms.Callback):
    def step_end(self, run_context):
        """Do nothing; `on_train_step_end` of the base class calls this."""


class Slow(Quick):
    def on_train_step_end(self, run_context):
        time.sleep(0.1)
        super().on_train_step_end(run_context)

    def on_train_epoch_end(self, run_context):
        Slow.on_train_epoch_end = replacement


def replacement(self, run_context):
    """Do nothing."""


ms.set_context(mode=ms.PYNATIVE_MODE)
data = np.ones((12, 4), np.float32)
net = nn.Dense(4, 2)
model = ms.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.01))
before = Slow.on_train_step_end, Quick.step_end
batches = ds.NumpySlicesDataset((data, data[:, :2]), ["x", "y"], shuffle=False).batch(1)
model.train(1, batches, callbacks=[Quick(), Slow()], dataset_sink_mode=False)
print((Slow.on_train_step_end, Quick.step_end) == before, Slow.on_train_epoch_end is replacement)
