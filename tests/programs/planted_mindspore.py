"""Train with MindSpore with one planted fault, or without a fault.

usage: planted_mindspore.py input|sync|launch|recompile|growth|sleep|sleep-cell|sleep-backward|python|garbage|
       checkpoint|optimizer|io|none|pynative|convolution
       msrun planted_mindspore.py late|ranks
"""

import gc
import os
import subprocess
import sys
import tempfile
import time

import mindspore as ms
import numpy as np
from mindspore import dataset, nn, ops

FEATURES, CLASSES = 64, 10

kind = sys.argv[1]
ms.set_seed(7)
ms.set_context(mode=ms.GRAPH_MODE if kind == "none" else ms.PYNATIVE_MODE)
ms.set_device("CPU")
parallel = "MS_ROLE" in os.environ
if parallel:
    from mindspore.communication import get_group_size, get_rank, init

    init()


class Slow(nn.Cell):
    """Sleep for 0.2 s and return the input."""

    def construct(self, x):
        time.sleep(0.2)
        return x


class Waits(nn.Cell):
    """Return the input, and sleep for 0.2 s in the backward pass."""

    def construct(self, x):
        return x * 1.0

    def bprop(self, x, out, dout):
        time.sleep(0.2)
        return (dout,)


class Whitened(nn.Optimizer):
    """A slow optimizer of the script, which multiplies each gradient by itself several times before its use."""

    def construct(self, gradients):
        for place, parameter in enumerate(self._parameters):
            gradient = gradients[place]
            own = gradient.reshape(gradient.shape[0], -1)
            for _ in range(4):
                own = ops.tanh(own + 0.001 * ops.matmul(ops.matmul(own, own.T), own))
            ops.assign_sub(parameter, 0.001 * own.reshape(gradient.shape))


class Node:
    """An object that refers to itself, so that only Python's collector frees it."""

    def __init__(self):
        self.own, self.rest = self, [[number] for number in range(20)]


def busy(seconds):
    """Run Python code for some seconds of processor time."""
    total, end = 0, time.thread_time() + seconds
    while time.thread_time() < end:
        total += sum(range(100))
    return total


def samples(count, seconds):
    """Yield `count` samples that take `seconds` seconds each."""
    for index in range(count):
        time.sleep(seconds)
        yield np.full(FEATURES, index / count, np.float32), np.int32(index % CLASSES)


def batch(size):
    """Return a random batch of `size` samples with their labels."""
    x = np.random.randn(size, FEATURES).astype(np.float32)
    return ms.Tensor(x), ms.Tensor(np.random.randint(0, CLASSES, size).astype(np.int32))


def network(width, *more):
    """Return a network of three dense layers, followed by the given cells."""
    return nn.SequentialCell(
        nn.Dense(FEATURES, width), nn.ReLU(), nn.Dense(width, width), nn.ReLU(), nn.Dense(width, CLASSES), *more
    )


WIDE = ("none", "pynative", "late", "ranks")
model = network(1024 if kind in WIDE else 32, *{"sleep-cell": [Slow()], "sleep-backward": [Waits()]}.get(kind, []))
if kind == "convolution":
    model = nn.SequentialCell(
        nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.Flatten(), nn.Dense(32 * 32 * 32, CLASSES)
    )
loss_of = nn.CrossEntropyLoss()
optimizer = nn.SGD(model.trainable_params(), 0.01)
if kind == "optimizer":
    model = network(512)
    optimizer = Whitened(0.001, model.trainable_params())
gradient = ms.value_and_grad(lambda x, y: loss_of(model(x), y), None, optimizer.parameters)


def train(x, y):
    """Train one step and return its loss."""
    loss, gradients = gradient(x, y)
    if parallel:
        gradients = tuple(exchange(value) for value in gradients)
    optimizer(gradients)
    return loss


exchange = ops.AllReduce() if parallel else None


@ms.jit
def scaled(x):
    """Compute something small; MindSpore compiles this function for each shape."""
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
elif kind in ("sleep", "python", "garbage", "sleep-cell", "sleep-backward"):
    x, y = batch(8 if kind != "sleep-cell" else 256)
    if kind == "garbage":
        kept = [Node() for _ in range(20_000)]
    for _ in range(15):
        if kind == "sleep":
            time.sleep(0.2)
        elif kind == "python":
            busy(0.3)
        elif kind == "garbage":
            gc.collect()
        train(x, y)
elif kind == "io":
    x, y = batch(8)
    answers = "import time\nwhile input():\n    time.sleep(0.2)\n    print('measured', flush=True)"
    with subprocess.Popen(
        [sys.executable, "-S", "-c", answers], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as child:
        for _ in range(15):
            child.stdin.write("measure\n")
            assert child.stdout.readline() == "measured\n"
            train(x, y)
        child.stdin.write("\n")
elif kind == "checkpoint":
    x, y = batch(8)
    more = ms.Parameter(ops.ones((4 << 20,), ms.float32), name="more")
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(15):
            train(x, y)
            ms.save_checkpoint([{"name": "more", "data": more}], os.path.join(folder, "last.ckpt"))
elif kind == "convolution":
    x, y = ms.Tensor(np.random.randn(16, 3, 32, 32).astype(np.float32)), batch(16)[1]
    for _ in range(15):
        train(x, y)
elif kind in ("pynative", "late", "ranks"):
    # with 256 samples, exchanges and the waits for them take 24 to 43 % of the steps of two ranks on two processors
    x, y = batch(2048 if kind == "ranks" else 256)
    for _ in range(20):
        if kind == "late" and get_rank() == get_group_size() - 1:
            time.sleep(0.4)
        train(x, y)
else:
    inputs, labels = (value.asnumpy() for value in batch(20 * 256))
    data = dataset.NumpySlicesDataset((inputs, labels), shuffle=False).batch(256)
    trainer = ms.Model(model, loss_of, optimizer)
    trainer.train(1, data, callbacks=[ms.LossMonitor(5)], dataset_sink_mode=False)
