"""Train with MindSpore with one thing wrong. usage: planted_mindspore.py input|sync|launch|recompile|growth|none"""

import sys
import time

import mindspore as ms
import numpy as np
from mindspore import dataset, nn, ops

FEATURES, CLASSES = 64, 10

kind = sys.argv[1]
ms.set_seed(7)
ms.set_context(mode=ms.GRAPH_MODE if kind == "none" else ms.PYNATIVE_MODE)
ms.set_device("CPU")


def samples(count, seconds):
    """Yield samples, each of which takes a while."""
    for index in range(count):
        time.sleep(seconds)
        yield np.full(FEATURES, index / count, np.float32), np.int32(index % CLASSES)


def batch(size):
    """Return one batch."""
    x = np.random.randn(size, FEATURES).astype(np.float32)
    return ms.Tensor(x), ms.Tensor(np.random.randint(0, CLASSES, size).astype(np.int32))


def network(width):
    """Return a network of three layers."""
    return nn.SequentialCell(
        nn.Dense(FEATURES, width), nn.ReLU(), nn.Dense(width, width), nn.ReLU(), nn.Dense(width, CLASSES)
    )


model = network(1024 if kind == "none" else 32)
loss_of = nn.CrossEntropyLoss()
optimizer = nn.SGD(model.trainable_params(), 0.01)
gradient = ms.value_and_grad(lambda x, y: loss_of(model(x), y), None, optimizer.parameters)


def train(x, y):
    """Train one step and return its loss."""
    loss, gradients = gradient(x, y)
    optimizer(gradients)
    return loss


@ms.jit
def scaled(x):
    """Compute something, compiled for each shape."""
    return ops.relu(x * 2.0 + 1.0)


kept, total = [], 0.0
if kind == "input":
    for x, y in dataset.GeneratorDataset(lambda: samples(120, 0.05), ["x", "y"], shuffle=False).batch(6):
        train(x, y)
elif kind == "sync":
    x, y = batch(8)
    for _ in range(15):
        for _ in range(150):
            x = x * 1.0001
            total += float(x.sum().asnumpy())
        train(x, y)
elif kind == "launch":
    x, y = batch(8)
    for _ in range(15):
        for _ in range(800):
            x = x + 0.001
        train(x, y)
elif kind == "recompile":
    for size in range(4, 14):
        x, y = batch(size)
        train(scaled(x), y)
elif kind == "growth":
    x, y = batch(8)
    for _ in range(60):
        train(x, y)
        kept.append(ops.ones((2048, 1024), ms.float32) + 1)
else:
    inputs, labels = (value.asnumpy() for value in batch(20 * 256))
    data = dataset.NumpySlicesDataset((inputs, labels), shuffle=False).batch(256)
    trainer = ms.Model(model, loss_of, optimizer)
    trainer.train(1, data, callbacks=[ms.LossMonitor(5)], dataset_sink_mode=False)
