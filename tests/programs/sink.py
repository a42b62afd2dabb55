"""Train as MindSpore does on a device that takes many batches at a time. usage: sink.py [cpu] [device]

With "device", stand-ins replace the device. They stay for the rest of the process.
"""

import sys

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn
from mindspore.dataset.engine import datasets
from mindspore.train import model as models

BATCHES = 4


class Device:
    """Stand in for the helper of a dataset: one call passes all batches of a sink to the network."""

    def __init__(self, network):
        self.network = network

    def __iter__(self):
        yield ()

    def sink_size(self):
        return BATCHES

    def __call__(self):
        data = ms.Tensor(np.ones([2, 2], np.float32))
        for _ in range(BATCHES):
            loss = self.network(data, data)
        return loss

    def continue_send(self):
        pass

    stop_send = release = continue_send


class Queue:
    """Stand in for the queue from a dataset to a device; it sends nothing."""

    def __init__(self, dataset, num_epochs):
        pass

    def send(self):
        pass


class Context:
    """Stand in for MindSpore's context on a machine whose device takes many batches at a time."""

    def get_context(self, key):
        return "Ascend" if key == "device_target" else ms.get_context(key)

    def __getattr__(self, name):
        return getattr(ms.context, name)


def train(where):
    """Train three epochs on the CPU or on the stand-in, and print the final parameters."""
    ms.set_seed(3)
    net = nn.Dense(2, 2)
    model = ms.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.01))
    data = np.ones([BATCHES * 2, 2], np.float32)
    dataset = ds.NumpySlicesDataset({"data": data, "label": data}, shuffle=False).batch(2)
    if where == "device":
        datasets._ToDevice = Queue
        dataset.device_que().send()
        device = Device(model.train_network)
        models.context = Context()
        ms.Model._check_network_mode = lambda self, network, is_train: network
        model._exec_preprocess = lambda **_: (device, device)
        model._warmup_dataset = lambda *_, **__: None
    model.train(3, dataset, dataset_sink_mode=True)
    print(net.weight.asnumpy().tobytes().hex())


ms.set_device("CPU")
for where in sys.argv[1:]:
    train(where)
