"""Train shortly, reaching as many of our hooks of MindSpore as one process on a processor can."""

import os

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn, ops
from mindspore.profiler import mstx
from mindspore.train import CheckpointConfig, ModelCheckpoint


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Dense(4, 8), nn.Dense(8, 2)
        self.relu = ops.ReLU()

    def construct(self, x):
        return self.second(self.relu(self.first(x)))


class Loss(nn.Cell):
    def __init__(self, net):
        super().__init__()
        self.net, self.loss = net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")

    def construct(self, x, y):
        return self.loss(self.net(x), y)


def batches():
    for index in range(4):
        yield np.full((4, 4), index / 4, np.float32), np.array([index % 2] * 4, np.int32)


def dataset():
    source = ds.GeneratorDataset(batches, ["x", "y"], shuffle=False)
    return source.map(lambda x: x, input_columns=["x"], num_parallel_workers=1)


def doubled(x):
    return ops.relu(x) * 2


def work(folder):
    """Train, and return the losses and other results, as a job would see them."""
    ms.set_seed(1)
    ms.set_device("CPU")
    ms.set_context(mode=ms.PYNATIVE_MODE)
    found = []
    net = Net()
    loss = Loss(net)
    optimizer = nn.Momentum(net.trainable_params(), 0.01, 0.9)
    gradient = ms.value_and_grad(loss, None, optimizer.parameters)
    for x, y in dataset().create_tuple_iterator():
        value, gradients = gradient(x, y)
        optimizer(gradients)
        found.append(float(value.asnumpy()).hex())
    step = nn.TrainOneStepCell(loss, optimizer)
    step.set_train()
    for row in dataset().create_dict_iterator(num_epochs=1):
        found.append(float(step(row["x"], row["y"]).asnumpy()).hex())
    kept = os.path.join(folder, str(os.getpid()))
    model = ms.Model(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"), optimizer, metrics={"loss"})
    saved = ModelCheckpoint("net", kept, CheckpointConfig(save_checkpoint_steps=2))
    model.fit(1, dataset(), dataset(), callbacks=[saved], dataset_sink_mode=False, valid_dataset_sink_mode=False)
    found.append(repr(model.eval(dataset(), dataset_sink_mode=False)))
    model.predict(ms.Tensor(np.ones((1, 4), np.float32)))
    path = os.path.join(kept, "more.ckpt")
    ms.save_checkpoint(net, path)
    found.append(sorted(ms.load_checkpoint(path)))
    ms.load_param_into_net(net, ms.load_checkpoint(path))
    number = mstx.range_start("range")
    mstx.mark("mark")
    mstx.range_end(number)
    compiled = ms.jit(doubled)
    found += [float(compiled(ms.Tensor(np.ones(size, np.float32))).sum().asnumpy()) for size in (2, 3)]
    net.first.recompute()
    found.append(float(ms.grad(lambda x: net(x).sum())(ms.Tensor(np.ones((1, 4), np.float32))).sum().asnumpy()).hex())
    ms.set_context(mode=ms.GRAPH_MODE)
    found.append(float(Net()(ms.Tensor(np.ones((1, 4), np.float32))).sum().asnumpy()).hex())
    return found
